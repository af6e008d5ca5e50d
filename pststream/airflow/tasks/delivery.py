"""Define the Airflow task that runs `jobs/deliver.py` without Spark, with the secrets of sinks from connections."""

from typing import Any

from airflow.sdk import BaseHook, task
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from pststream.airflow.hook import PSTStreamSinkHook
from pststream.airflow.runners.allowed_places import HOMES, RunPlace, admit, belongs_to
from pststream.airflow.runners.engine_choice import settings_in
from pststream.airflow.runners.local_job import run_job
from pststream.airflow.runners.run_environment import run_environment
from pststream.base import names


@task(retries=0, trigger_rule="all_done")
def deliver(
    home: list[str], sinks_conn_id: str, aws_conn_id: str | None, sink_prefix: str = names.SINK_CONNECTIONS
) -> dict[str, Any]:
    """Send the messages of finished batches to the sinks; fail if a sink needs attention. The next run tries again.

    Runs even if matching failed, for the batches before.

    home         the arguments that name the home, those of `DagOptions.home_arguments`
    sink_prefix  how the ids of the connections of single sinks begin; the name of the sink follows
    """
    place = admit(home)
    with run_environment(place, aws_conn_id):
        tables = settings_in(place.home).get("sinks")
    variables = variables_of_all(sinks_conn_id, place)
    for name in tables if isinstance(tables, dict) else ():
        variables |= variables_of(name, f"{sink_prefix}{name}", place)
    for value in variables.values():
        mask_secret(value)
    sinks: dict[str, Any] = run_job("deliver", home, variables, aws_conn_id)["sinks"]
    return sinks


def variables_of_all(conn_id: str, place: RunPlace) -> dict[str, str]:
    """Return the extra of the connection of all sinks, {"alerts": {"secret": …, "target": …}}, as variables.

    Empty without the connection, and for one that belongs to another home.
    """
    try:
        sinks = BaseHook.get_connection(conn_id).extra_dejson
    except AirflowNotFoundException:
        return {}
    if not belongs_to(conn_id, sinks.pop(HOMES, None), place):
        return {}
    return {variable(name, key): str(value) for name, keys in sinks.items() for key, value in keys.items()}


def variables_of(name: str, conn_id: str, place: RunPlace) -> dict[str, str]:
    """Return target and secret of the connection of one sink as variables; empty as `variables_of_all`."""
    try:
        hook = PSTStreamSinkHook(conn_id)
    except AirflowNotFoundException:
        return {}
    if not belongs_to(conn_id, hook.homes, place):
        return {}
    values = {"target": hook.target, "secret": hook.secret}
    return {variable(name, key): value for key, value in values.items() if value}


def variable(name: str, key: str) -> str:
    """Return the environment variable of a key of a sink."""
    return f"{names.SINK_VARIABLES}{name.upper()}_{key.upper()}"
