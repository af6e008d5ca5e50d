#!/usr/bin/env bash
# Make what Airflow and Spark need before they start: Airflow's tables, the pool, the home, Spark's secret; safe to run again.
set -euo pipefail
project="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

airflow db migrate
airflow pools import "$project/infra/airflow/pools.json"
pststream init
# On Kubernetes the file is a secret (docs/where-it-runs.md). The secret is in no argument of a process.
if [ -n "${SPARK_SECRET:-}" ]; then
    (
        umask 077
        { cat "$project/infra/spark/authentication.conf"; printf 'spark.authenticate.secret %s\n' "$SPARK_SECRET"; } \
            > "$SPARK_CONF_DIR/spark-defaults.conf.new"
    )
    mv "$SPARK_CONF_DIR/spark-defaults.conf.new" "$SPARK_CONF_DIR/spark-defaults.conf"
fi
