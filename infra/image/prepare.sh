#!/usr/bin/env bash
# What has to be there before Airflow starts: its tables, the pool, the home, the bucket; safe to do again.
set -euo pipefail
project="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

airflow db migrate
airflow pools import "$project/infra/airflow/pools.json"
pststream init
# A gateway that keeps each bucket in a folder of this volume finds the bucket so (infra/compose.yaml).
[ -z "${LANDING_BUCKET:-}" ] || mkdir -p "/var/lib/pststream/landing/$LANDING_BUCKET"
