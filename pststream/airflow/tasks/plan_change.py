"""Add the tasks of a plan change to `adjust_load` and `repartition`: check, plan, replay, show, approve, apply."""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param, task
from airflow.sdk.exceptions import AirflowSkipException

from pststream.airflow.dag_defaults import PLANS
from pststream.airflow.runners.local_job import run_job
from pststream.airflow.tasks.adjustment_pages import PROPOSAL, PagedJob
from pststream.airflow.tasks.replay_job import ReplayJob
from pststream.airflow.tasks.summaries import moves_table, summarize_balance

ANSWER_TIMEOUT = timedelta(hours=20)
QUESTION = """
{{ task.summary.reason }}
{% if task.summary.gain is not none %}
{{ task.summary.moved_subscriptions }} subscriptions would move, about {{ task.summary.moved_bytes }} bytes.
Expected gain: {{ task.summary.gain }} of the greatest load.
{% endif %}
{% if task.summary.page %}[What moves, on a map]({{ task.summary.page }}){% endif %}

    {{ ti.xcom_pull(task_ids="show") | indent(4) }}
"""
PUBLISHED = ("kind", "plan_version", "plan_version_before", "moved_subscriptions", "moved_bytes", "gain", "page")

DRY_RUN = Param(
    False,
    type="boolean",
    title="Dry run",
    description="Show what would move and what the last batches would have cost, and change nothing.",
    section="Change",
)
APPROVAL = Param(
    os.environ.get("PSTSTREAM_APPROVAL", "").lower() in ("1", "true", "yes"),
    type="boolean",
    title="Ask before applying",
    description="Wait until a person approves the proposal (Required Actions). It is rejected after 20 hours.",
    section="Change",
)


class Approval(ApprovalOperator):
    """Approves a change at once, or asks a person if the form says so; skips the rest if there is nothing to apply."""

    template_fields = ("summary", *ApprovalOperator.template_fields)

    def __init__(self, *, summary: Any, **kwargs: Any) -> None:
        super().__init__(
            subject="{{ dag.dag_id }}: change plan {{ task.summary.plan_version_before }}?",
            body=QUESTION,
            defaults=self.REJECT,
            response_timeout=ANSWER_TIMEOUT,
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
    """Print the moves, and the loads before and after; the text is also the XCom."""
    table = moves_table(summary)
    print(table)  # noqa: T201
    return table


@task(outlets=[PLANS])
def publish(summary: dict, outlet_events: Any = None) -> None:
    """Write the asset event of the new plan."""
    outlet_events[PLANS].extra = {name: summary[name] for name in PUBLISHED}


def change_plan(
    job: str,
    arguments: Sequence[str],
    *,
    check: Sequence[str],
    nothing_to_do: Callable[[dict[str, Any]], str | None],
    timeout: timedelta,
) -> None:
    """Add the tasks to the DAG of the `with` block; exactly the proposal that is shown is applied.

    job, arguments  the entry of jobs/ that writes the proposal, and with `--apply` applies it
    check           arguments of `pststream balance check`
    nothing_to_do   returns the reason why there is nothing to plan, from the document of that command, or None
    """

    @task(task_id="check")
    def check_balance(*words: str) -> dict:
        """Return the measured balance; skip the run if there is nothing to do."""
        measured = run_job("balance", ["check", *words])
        print(measured)  # noqa: T201
        if reason := nothing_to_do(measured):
            raise AirflowSkipException(reason)
        return measured

    arguments = [*arguments, f"--proposal={PROPOSAL}"]
    options: dict[str, Any] = {"job": job, "summarize": summarize_balance, "execution_timeout": timeout}
    plan = PagedJob(task_id="plan", arguments=arguments, **options)
    approve = Approval(task_id="approve", summary=plan.output)
    apply = PagedJob(task_id="apply", arguments=[*arguments, "--apply"], **options)
    check_balance(*check) >> plan
    ReplayJob(task_id="replay", summary=plan.output, execution_timeout=timeout)
    show(plan.output) >> approve >> apply
    publish(apply.output)
