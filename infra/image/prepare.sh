#!/usr/bin/env bash
# Make what Airflow needs before it starts: its tables, the pool, the home, the bucket; safe to run again.
set -euo pipefail
project="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

airflow db migrate
airflow pools import "$project/infra/airflow/pools.json"
pststream init
# The gateway stores each bucket in a folder of this volume, so the folder makes the bucket (infra/compose.yaml).
[ -z "${LANDING_BUCKET:-}" ] || mkdir -p "/var/lib/pststream/landing/$LANDING_BUCKET"
