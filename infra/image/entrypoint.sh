#!/bin/sh
# Airflow's official chart runs its probes by /entrypoint, which Airflow's own image has.
exec "$@"
