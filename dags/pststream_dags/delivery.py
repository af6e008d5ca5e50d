"""The task that tells the sinks, without Spark and its pool; secrets come from Airflow's connection."""

from typing import Any

from airflow.sdk import BaseHook, task
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret
from pststream_dags.plain_job import run_job

from pststream import names


@task(retries=0, trigger_rule="all_done")
def deliver(home: str) -> dict[str, Any]:
    """Tell the sinks what batches have found; fails if one of them needs attention, and the next run tries again.

    Also where matching failed: what was found before is told.
    """
    sinks: dict[str, Any] = run_job("deliver", [home], sink_environment())["sinks"]
    return sinks


def sink_environment() -> dict[str, str]:
    """What the extra of the connection says, {"alerts": {"secret": …, "target": …}}, as variables of the job."""
    try:
        sinks = BaseHook.get_connection(names.SINKS_CONNECTION).extra_dejson
    except AirflowNotFoundException:
        return {}
    found = {
        f"PSTSTREAM_SINK_{name.upper()}_{key.upper()}": str(value)
        for name, keys in sinks.items()
        for key, value in keys.items()
    }
    for value in found.values():
        mask_secret(value)
    return found
