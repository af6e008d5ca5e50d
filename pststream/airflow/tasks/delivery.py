"""Define the Airflow task that runs `jobs/deliver.py` without Spark, with sink secrets from a connection."""

from typing import Any

from airflow.sdk import BaseHook, task
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from pststream.airflow.runners.local_job import run_job


@task(retries=0, trigger_rule="all_done")
def deliver(home: str, sinks_conn_id: str, aws_conn_id: str | None) -> dict[str, Any]:
    """Send the messages of finished batches to the sinks; fail if a sink needs attention. The next run tries again.

    Runs even if matching failed, for the batches before.
    """
    sinks: dict[str, Any] = run_job("deliver", [home], sink_environment(sinks_conn_id), aws_conn_id)["sinks"]
    return sinks


def sink_environment(conn_id: str) -> dict[str, str]:
    """Return the extra of the connection, {"alerts": {"secret": …, "target": …}}, as variables of the job."""
    try:
        sinks = BaseHook.get_connection(conn_id).extra_dejson
    except AirflowNotFoundException:
        return {}
    variables = {
        f"PSTSTREAM_SINK_{name.upper()}_{key.upper()}": str(value)
        for name, keys in sinks.items()
        for key, value in keys.items()
    }
    for value in variables.values():
        mask_secret(value)
    return variables
