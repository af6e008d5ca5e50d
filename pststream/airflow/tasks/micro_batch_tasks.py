"""Add the tasks of a micro-batch to a DAG or a task group: match, publish, deliver, check balance and rejects."""

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from pststream.airflow.dag_options import DagOptions
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.answered_files import add_publish_answers
from pststream.airflow.tasks.delivery import deliver
from pststream.airflow.tasks.match_job import SINCE_FIRST_TRY, MatchJob
from pststream.base import names
from pststream.base.format_values import counted

log = logging.getLogger(__name__)


class RowsRejected(AirflowFailException):
    """Rows were rejected in a strict run."""


def add_micro_batch_tasks(options: DagOptions) -> None:
    """Add the tasks to the DAG or the task group of the `with` block. Fields that a form does not have are empty."""
    match = MatchJob(
        task_id="match",
        arguments=[
            *options.home_arguments,
            *options.landing_arguments,
            forms.optional("max_objects"),
            forms.flag("strict"),
            SINCE_FIRST_TRY,
            "--no-deliver",
        ],
        execution_timeout=timedelta(hours=1),
        **options.job,
    )
    add_publish(options.asset(names.MATCHES), match.output)
    add_publish_answers(options.asset(names.QUESTION_ANSWERS), match.output)
    add_check_balance(options.asset("imbalance"), match.output)
    check_rejects(match.output)
    sinks = options.sinks_conn_id or options.named("sinks")
    match >> deliver(options.home_arguments, sinks, options.aws_conn_id, sink_prefix=options.named("sink_"))


def add_publish(matches: Asset, summary: Any) -> None:
    """Add the task `publish`."""

    @task(outlets=[matches])
    def publish(summary: dict, outlet_events: Any = None) -> None:
        """Write the asset event if there was a batch."""
        if not summary["batches"]:
            raise AirflowSkipException("no batch was run")
        outlet_events[matches].extra = summary

    publish(summary)


def add_check_balance(imbalance: Asset, summary: Any) -> None:
    """Add the task `check_balance`."""

    @task(inlets=[imbalance], outlets=[imbalance])
    def check_balance(summary: dict, inlet_events: Any = None, outlet_events: Any = None) -> None:
        """Write the event that starts an adjustment, once for each plan version that is out of balance."""
        measured = summary["balance"]
        if not measured or not measured["violated"]:
            raise AirflowSkipException("the workers are in balance, or too few batches were measured to be sure")
        measured = measured | {"home": summary["home"]}
        last = list(inlet_events[imbalance].ascending(False).limit(1))
        if last and all(last[0].extra.get(name) == measured[name] for name in ("home", "plan_version")):
            raise AirflowSkipException(f"the event for plan {measured['plan_version']} was written before")
        outlet_events[imbalance].extra = measured

    check_balance(summary)


@task
def check_rejects(summary: dict, params: Any = None) -> None:
    """Log a warning if rows were rejected; fail a strict run."""
    if not summary["rejected"]:
        return
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in summary["rejects_by_reason"].items())
    message = f"{counted(summary['rejected'], 'row')} rejected: {reasons}; see `pststream rejects`"
    if params.get("strict"):
        raise RowsRejected(message)
    log.warning("%s", message)
