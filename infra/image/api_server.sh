#!/usr/bin/env bash
# Airflow's API server with the password of the user admin from AIRFLOW_ADMIN_PASSWORD, instead of a generated one that it prints.
set -euo pipefail
umask 077
export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=admin:admin
export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE="${TMPDIR:-/tmp}/airflow-passwords.json"
python -c 'import json, os; print(json.dumps({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}))' \
    > "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
unset AIRFLOW_ADMIN_PASSWORD
exec airflow api-server "$@"
