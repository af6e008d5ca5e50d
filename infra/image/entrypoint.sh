#!/bin/sh
# Airflow's official chart runs its probes through /entrypoint, a script of Airflow's own image.
exec "$@"
