"""Add the tasks of a plan change to `adjust_load` and `repartition`: check, plan, replay, show, approve, apply."""

import logging
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperatorLink, Context, Param, task
from airflow.sdk.exceptions import AirflowSkipException

from pststream.airflow.dag_kind import add_job
from pststream.airflow.dag_options import DagOptions
from pststream.airflow.runners.allowed_places import admit
from pststream.airflow.runners.job_process import run_job
from pststream.airflow.runners.run_environment import run_environment
from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.summaries import moves_table, summarize_balance, summarize_replay
from pststream.base import names

PREFIX = "/pststream/pages"


def run_file(options: DagOptions, ending: str) -> str:
    """Return the template of the path or address of a file that a run writes to the folder of pages."""
    return f"{options.pages}/{{{{ dag.dag_id }}}}-{{{{ run_id | file_name }}}}{ending}"


def page_url(task: Any) -> str:
    """Return the URL of the page of a task (an operator with `page`); empty if the page was not written."""
    from pststream.storage.registry import file_at  # loads Arrow, which only a task needs

    with run_environment(admit(task.application_args or []), task.aws_conn_id):
        files, name = file_at(task.page)
        if not files.exists(name):
            return ""
    base = os.environ.get("PSTSTREAM_PAGES_URL") or conf.get("api", "base_url", fallback="").rstrip("/") + PREFIX
    return f"{base}/{name}"


class PageLink(BaseOperatorLink):
    """The button *What moves* of the task."""

    name = "What moves"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the URL of the page that the task wrote."""
        return page_url(operator)


class PagedJob(SparkJob):
    """A Spark job that writes a page about its moves to `page`, if there are any; its XCom also has URLs."""

    template_fields = (*SparkJob.template_fields, "page")
    operator_extra_links = (PageLink(),)

    def __init__(self, *, arguments: list[str], page: str, **kwargs: Any) -> None:
        super().__init__(arguments=[*arguments, f"--page={page}"], **kwargs)
        self.page = page

    def execute(self, context: Any) -> Any:
        """Run the job; return its summary with the URLs of the page and of the table of plans."""
        return {**super().execute(context), "page": page_url(self), "table": self.table_uri(names.PLANS)}


BATCHES = 8
"""Number of the last batches that a dry run replays."""


class ReplayLink(PageLink):
    """The button *Replayed batches* of the task."""

    name = "Replayed batches"


class ReplayJob(PagedJob):
    """Replays the last batches of the home under the plan of the run's proposal; its XCom has both sides' figures.

    summary   the XCom of the task that made the proposal
    """

    template_fields = ("summary", *PagedJob.template_fields)
    operator_extra_links = (ReplayLink(),)

    def __init__(self, *, summary: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.summary = summary

    def execute(self, context: Context) -> Any:
        """Replay in a dry run that has a proposal, else skip."""
        if not context["params"]["dry_run"]:
            raise AirflowSkipException("only a dry run replays batches")
        if self.summary["plan_version"] == self.summary["plan_version_before"]:
            raise AirflowSkipException(f"nothing to replay: {self.summary['reason']}")
        if self.summary["moved_bytes"] is None:
            raise AirflowSkipException(
                "a plan with an index of its own, or of topk, has no proposal: see `pststream replay --planner`"
            )
        return super().execute(context)


log = logging.getLogger(__name__)

QUESTION = """
{{ task.summary.reason }}
{% if task.summary.gain is not none %}
{{ task.summary.moved_subscriptions }} subscriptions would move, about {{ task.summary.moved_bytes }} bytes.
Expected gain: {{ task.summary.gain }} of the greatest load.
{% endif %}
{% if task.summary.page %}[What moves, on a map]({{ task.summary.page }}){% endif %}

    {{ ti.xcom_pull(task_ids="show") | indent(4) }}
"""
PUBLISHED = (
    "kind",
    "plan_version",
    "plan_version_before",
    "moved_subscriptions",
    "moved_bytes",
    "gain",
    "page",
    "table",
)


def confirmation_fields() -> dict[str, Param]:
    """Return the fields *Dry run* and *Ask before applying*."""
    asks = os.environ.get("PSTSTREAM_APPROVAL", "").lower() in ("1", "true", "yes")
    dry_run = "Show what would move and what the last batches would have cost, and change nothing."
    approval = "Wait until a person approves the proposal (Required Actions). It is rejected after 20 hours."
    return {
        "dry_run": forms.field("boolean", "Dry run", dry_run, "Change", False),
        "approval": forms.field("boolean", "Ask before applying", approval, "Change", asks),
    }


class Approval(ApprovalOperator):
    """Approves a change at once, or asks a person if the form says so; skips the rest if there is nothing to apply."""

    template_fields = ("summary", *ApprovalOperator.template_fields)

    def __init__(self, *, summary: Any, **kwargs: Any) -> None:
        super().__init__(
            subject="{{ dag.dag_id }}: change plan {{ task.summary.plan_version_before }}?",
            body=QUESTION,
            defaults=self.REJECT,
            response_timeout=timedelta(hours=20),
            **kwargs,
        )
        self.summary = summary

    def execute(self, context: Context) -> Any:
        """Approve, skip, or ask a person."""
        if self.summary["plan_version"] == self.summary["plan_version_before"]:
            raise AirflowSkipException(f"nothing to apply: {self.summary['reason']}")
        if context["params"]["dry_run"]:
            raise AirflowSkipException("a dry run changes nothing")
        if not context["params"]["approval"]:
            self.log.info("approved without a question")
            return None
        return super().execute(context)


@task
def show(summary: dict) -> str:
    """Log the moves, and the loads before and after, line by line; the text is also the XCom."""
    table = moves_table(summary)
    for line in table.splitlines():
        log.info("%s", line)
    return table


def change_plan(
    options: DagOptions,
    job: str,
    arguments: Sequence[str],
    *,
    check: Sequence[str],
    nothing_to_do: Callable[[dict[str, Any]], str | None],
    hours: int,
) -> None:
    """Add the tasks to the DAG of the `with` block; exactly the proposal that is shown is applied.

    job, arguments  the entry of jobs/ that writes the proposal, and with `--apply` applies it; without its home
    check           arguments of `jobs/check_balance.py`, without its home
    nothing_to_do   returns the reason why there is nothing to plan, from the document of that job, or None
    hours           after which a task is ended
    """

    @task(task_id="check")
    def check_balance(*words: str) -> dict:
        """Return the measured balance; skip the run if there is nothing to do."""
        measured = run_job("check_balance", words, aws_conn_id=options.aws_conn_id)
        if reason := nothing_to_do(measured):
            raise AirflowSkipException(reason)
        return measured

    proposal = run_file(options, ".npz")
    asset = options.asset(names.PLANS)

    @task(outlets=[asset])
    def publish(summary: dict, outlet_events: Any = None) -> None:
        """Write the asset event of the new plan."""
        outlet_events[asset].extra = {name: summary[name] for name in PUBLISHED}

    words = [*arguments, f"--proposal={proposal}"]
    common: dict[str, Any] = {"hours": hours, "job": job, "operator": PagedJob, "summarize": summarize_balance}
    common |= {"page": run_file(options, ".html")}
    plan = add_job(options, "plan", words, **common)
    people: dict[str, Any] = {"assigned_users": list(options.assigned_users) or None, "notifiers": options.notifiers}
    approve = Approval(task_id="approve", summary=plan.output, **people)
    apply = add_job(options, "apply", [*words, "--apply"], **common)
    check_balance(*options.home_arguments, *check) >> plan
    replayed = {"summary": plan.output, "page": run_file(options, "-replay.html"), "summarize": summarize_replay}
    words = [f"--last={BATCHES}", f"--proposal={proposal}"]
    add_job(options, "replay", words, hours=hours, job="replay", operator=ReplayJob, **replayed)
    show(plan.output) >> approve >> apply
    publish(apply.output)
