"""Add the tasks of a micro-batch to a DAG or a group: match, answer, publish, deliver, check balance and rejects."""

import logging
from typing import Any

from airflow.sdk import Asset, BaseHook, Context, task
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)
from airflow.sdk.log import mask_secret

from pststream.airflow.dag_kind import add_job
from pststream.airflow.dag_options import DagOptions
from pststream.airflow.operators import PSTStreamSinkHook
from pststream.airflow.runners.allowed_places import HOMES, RunPlace, admit, belongs_to
from pststream.airflow.runners.engine_choice import landing_of, settings_in
from pststream.airflow.runners.job_process import run_job
from pststream.airflow.runners.run_environment import run_environment
from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.data_docs import DataDocsJob
from pststream.airflow.tasks.summaries import summarize_answers, summarize_batches
from pststream.base import names
from pststream.base.texts import counted

log = logging.getLogger(__name__)

RETURN_VALUE = "return_value"
"""The key of the XCom of a returned value."""

SINCE_FIRST_TRY = "--since={{ dag_run.start_date.isoformat() if ti.try_number > 1 else '' }}"
"""The template of the argument with which the result of a retry includes what earlier tries did."""


class MatchJob(DataDocsJob):
    """Ingests and matches what is new. A later task without work is skipped here, so that no process starts for it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="micro_batch", summarize=_summarize, asks_for_work=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Run the job; return its summary, after storing it if tasks are skipped."""
        summary: dict[str, Any] = super().execute(context)
        summary["table"] = self.table_uri(names.MATCHES)
        summary["answered"]["table"] = self.table_uri(names.QUESTION_ANSWERS)
        idle = tasks_without_work(summary, summary.pop("waiting_sinks"))
        idle = [self.task_group.child_id(task) if self.task_group else task for task in idle]
        if idle:
            context["ti"].xcom_push(key=RETURN_VALUE, value=summary)
            raise DownstreamTasksSkipped(tasks=idle)
        return summary


def tasks_without_work(summary: dict[str, Any], waiting_sinks: list[str]) -> list[str]:
    """Return the tasks after the match that have nothing to do."""
    measured = summary["balance"]
    has_work = {
        "publish": summary["batches"] > 0,
        "publish_answers": summary["answered"]["files"] > 0,
        "deliver": bool(waiting_sinks),
        "check_balance": bool(measured and measured["violated"]),
        "check_rejects": summary["rejected"] > 0,
    }
    return [task for task, works in has_work.items() if not works]


def _summarize(outcome: dict[str, Any]) -> dict[str, Any]:
    return summarize_batches(outcome) | {"waiting_sinks": outcome["result"]["waiting_sinks"]}


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


class AnswerFilesJob(SparkJob):
    """Answers the new files of questions; its XCom has the counts and the address of the table of answers.

    Files of questions in a bucket are not read: the task is skipped if the landing folder is in one.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="answer_questions", summarize=summarize_answers, asks_for_work=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Run the job; return its summary."""
        place = admit(self.application_args or [])
        landing = landing_of(place.arguments)
        if names.storage_prefix(landing):
            raise AirflowSkipException(f"{landing}: questions in a bucket are not read")
        return {**super().execute(context), "table": self.table_uri(names.QUESTION_ANSWERS)}


def add_publish_answers(answers: Asset, summary: Any) -> None:
    """Add the task `publish_answers`; `summary` has the counts of answered files as `answered`, or is these counts."""

    @task(outlets=[answers])
    def publish_answers(summary: dict, outlet_events: Any = None) -> None:
        """Write the asset event if files of questions were answered."""
        counts = summary.get("answered", summary)
        if not counts["files"]:
            raise AirflowSkipException("no file of questions is new")
        outlet_events[answers].extra = counts

    publish_answers(summary)


class RowsRejected(AirflowFailException):
    """Rows were rejected in a strict run."""


def add_micro_batch_tasks(options: DagOptions) -> None:
    """Add the tasks to the DAG or the task group of the `with` block. Fields that a form does not have are empty."""
    words = [*options.landing_arguments, forms.optional("max_objects"), forms.flag("strict")]
    words += [SINCE_FIRST_TRY, "--no-deliver"]
    match = add_job(options, "match", words, hours=1, operator=MatchJob)
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
