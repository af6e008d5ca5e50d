"""What each job reads and writes, for Airflow's own lineage; free where nobody listens to it."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

from pststream import names

log = logging.getLogger(__name__)

INDEX = (names.PLANS, names.PLAN_UNITS, names.WORKER_INDEX)
READS_WRITES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "micro_batch": ((names.PLANS,), (names.OBJECTS, names.REQUESTS, names.REJECTS, names.WORKER_INDEX, names.MATCHES)),
    "deliver": ((names.MATCHES, names.OBJECTS, names.REQUESTS), (names.DELIVERIES, names.DEAD_LETTERS)),
    "balance": ((names.UNIT_LOADS, names.OBJECTS, *INDEX), (names.MIGRATIONS, *INDEX)),
    "repartition": ((names.UNIT_LOADS, names.OBJECTS, *INDEX), (names.MIGRATIONS, *INDEX)),
    "maintain": ((names.WORKER_INDEX, names.MATCHES), (names.WORKER_INDEX, names.MATCHES)),
    "check_tables": ((names.FILES, names.BATCHES, names.OBJECTS, names.MATCHES, *INDEX), (names.QUALITY_RESULTS,)),
    "quarantine": ((names.QUARANTINE,), (names.OBJECTS, names.REQUESTS, names.REJECTS, names.QUARANTINE)),
}
"""By job: tables that it reads, tables that it writes."""


ONLY_APPLIED = ("balance", "repartition")
"""Jobs that write nothing unless they are told to apply what they propose."""


def tell(job: str, arguments: Sequence[str], teller: Any) -> None:
    """Name the tables of a job that is done, which was given these arguments; if Airflow refuses a name, none."""
    try:
        _tell(job, arguments, teller)
    except Exception as error:
        log.warning("no lineage of %s: %s", job, error)


def _tell(job: str, arguments: Sequence[str], teller: Any) -> None:
    collector = get_hook_lineage_collector()
    reads, writes = READS_WRITES.get(job, ((), ()))
    if job in ONLY_APPLIED and "--apply" not in arguments:
        writes = ()
    homes = [argument.removeprefix("--home=") for argument in arguments if argument.startswith("--home=")]
    home = _uri(next(filter(None, homes), os.environ.get("PSTSTREAM_HOME", "./pststream-home")))
    for name in reads:
        collector.add_input_asset(teller, uri=f"{home}/tables/{name}")
    for name in writes:
        collector.add_output_asset(teller, uri=f"{home}/tables/{name}")


def _uri(home: str) -> str:
    prefix = names.storage_prefix(home)
    if prefix:
        return prefix + home.partition("://")[2].rstrip("/")
    return f"file://{Path(home).absolute()}"


def parent(task_instance: Any) -> dict[str, str]:
    """A variable that tells the job's own events which task they belong to; none where nobody listens."""
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return {}
    if conf.is_disabled():
        return {}
    try:
        from airflow.providers.openlineage.plugins.macros import lineage_parent_id

        return {"OPENLINEAGE_PARENT_ID": lineage_parent_id(task_instance)}
    except Exception as error:
        log.warning("the job is told no parent: %s", error)
        return {}
