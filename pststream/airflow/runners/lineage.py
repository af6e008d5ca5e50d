"""Report the tables of a job to Airflow's lineage, and pass Airflow's OpenLineage options on to jobs and to Spark."""

import json
import logging
import os
from collections.abc import Sequence
from typing import Any

from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector
from airflow.providers.common.compat.openlineage.utils.spark import (
    inject_parent_job_information_into_spark_properties,
    inject_transport_information_into_spark_properties,
)

from pststream.airflow.runners.engine_choice import home_of
from pststream.base import names
from pststream.base.texts import mask_urls

log = logging.getLogger(__name__)

INDEX = (names.PLANS, names.PLAN_UNITS, names.WORKER_INDEX)
READS_WRITES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "ingest": ((), (names.OBJECTS, names.REQUESTS, names.REJECTS)),
    "match": ((names.OBJECTS, names.REQUESTS, names.PLANS), (names.WORKER_INDEX, names.MATCHES)),
    "plan": ((names.OBJECTS, names.REQUESTS), INDEX),
    "micro_batch": ((names.PLANS,), (names.OBJECTS, names.REQUESTS, names.REJECTS, names.WORKER_INDEX, names.MATCHES)),
    "deliver": ((names.MATCHES, names.OBJECTS, names.REQUESTS), (names.DELIVERIES, names.DEAD_LETTERS)),
    "check_balance": ((names.UNIT_LOADS, names.PLANS), ()),
    "balance": ((names.UNIT_LOADS, names.OBJECTS, *INDEX), (names.MIGRATIONS, *INDEX)),
    "repartition": ((names.UNIT_LOADS, names.OBJECTS, *INDEX), (names.MIGRATIONS, *INDEX)),
    "replay": ((names.BATCHES, names.UNIT_LOADS, names.OBJECTS, names.REQUESTS, names.MATCHES, names.PLANS), ()),
    "maintain": ((names.WORKER_INDEX, names.MATCHES), (names.WORKER_INDEX, names.MATCHES)),
    "check_tables": ((names.FILES, names.BATCHES, names.OBJECTS, names.MATCHES, *INDEX), (names.QUALITY_RESULTS,)),
    "ask": ((names.OBJECTS,), ()),
    "answer_questions": ((names.OBJECTS,), (names.QUESTION_ANSWERS, names.QUESTIONS, names.REJECTS)),
    "term_statistics": ((names.OBJECTS,), (names.TERM_STATISTICS,)),
    "pairs": ((names.MATCHES, names.OBJECTS, names.REQUESTS), ()),
    "quarantine": ((names.QUARANTINE,), (names.OBJECTS, names.REQUESTS, names.REJECTS, names.QUARANTINE)),
}
"""By job: the tables that it reads, and the tables that it writes."""


ONLY_APPLIED = ("balance", "repartition")
"""Jobs that write nothing without `--apply`."""


def report_tables(job: str, arguments: Sequence[str], reporter: Any) -> None:
    """Report the tables of a job that has run with these arguments; log a warning if Airflow refuses a name.

    reporter: the operator or function in whose name Airflow's collector stores them
    """
    try:
        _collect_tables(job, arguments, reporter)
    except Exception as error:
        log.warning("no lineage of %s: %s", job, mask_urls(str(error)))


def _collect_tables(job: str, arguments: Sequence[str], reporter: Any) -> None:
    collector = get_hook_lineage_collector()
    reads, writes = READS_WRITES.get(job, ((), ()))
    if job in ONLY_APPLIED and "--apply" not in arguments:
        writes = ()
    home = home_uri(home_of(arguments))
    for name in reads:
        collector.add_input_asset(reporter, uri=f"{home}/tables/{name}")
    for name in writes:
        collector.add_output_asset(reporter, uri=f"{home}/tables/{name}")


def home_uri(home: str) -> str:
    """Return the URI of a home: `s3://…` or `file:///…`; its tables are in `tables/`."""
    prefix = names.storage_prefix(home)
    if prefix:
        return prefix + home.partition("://")[2].rstrip("/")
    return f"file://{os.path.abspath(home)}"


def parent_run_variable(task_instance: Any) -> dict[str, str]:
    """Return the variable that makes this task the parent of the job's own lineage events; empty without listener."""
    conf = _openlineage_conf()
    if conf is None or conf.is_disabled():
        return {}
    try:
        from airflow.providers.openlineage.plugins.macros import lineage_parent_id

        return {"OPENLINEAGE_PARENT_ID": lineage_parent_id(task_instance)}
    except Exception as error:
        log.warning("no parent run for the lineage of the job: %s", mask_urls(str(error)))
        return {}


def spark_properties(conf: dict[str, str], operator: Any, context: Any) -> dict[str, str]:
    """Return Spark's configuration with what `openlineage_inject_…_info` of the operator ask for."""
    if operator._openlineage_inject_parent_job_info:
        conf = inject_parent_job_information_into_spark_properties(conf, context)
    if operator._openlineage_inject_transport_info:
        conf = inject_transport_information_into_spark_properties(conf, context)
    return conf


def transport_variable(operator: Any) -> dict[str, str]:
    """Return the variable by which a job's own events go where Airflow's do, if the operator asks for that."""
    conf = _openlineage_conf() if operator._openlineage_inject_transport_info else None
    if conf is None or conf.is_disabled() or not conf.transport():
        return {}
    return {"OPENLINEAGE__TRANSPORT": json.dumps(conf.transport())}


def _openlineage_conf() -> Any:
    """Return the configuration of Airflow's OpenLineage provider; None if it is not installed."""
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return None
    return conf
