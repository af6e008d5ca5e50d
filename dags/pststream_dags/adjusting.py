"""The steps of a change of plan, the same for an adjustment and a repartition: check, plan, show, approve, apply."""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param, task
from airflow.sdk.exceptions import AirflowSkipException
from pststream_dags.common import PLANS
from pststream_dags.pages import PROPOSAL, PagedJob
from pststream_dags.plain_job import run_job
from pststream_dags.summaries import moves_table, summarize_balance

ANSWER_WITHIN = timedelta(hours=20)
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
    description="Show what would move; change nothing.",
    section="Change",
)
APPROVAL = Param(
    os.environ.get("PSTSTREAM_APPROVAL", "").lower() in ("1", "true", "yes"),
    type="boolean",
    title="Ask before applying",
    description="Wait until a person approves what is shown (Required Actions). No answer in 20 hours rejects.",
    section="Change",
)


class Approval(ApprovalOperator):
    """Lets a change pass. Skips the rest where there is nothing to apply; asks a person first if the form says so."""

    template_fields = ("summary", *ApprovalOperator.template_fields)

    def __init__(self, *, summary: Any, **kwargs: Any) -> None:
        super().__init__(
            subject="{{ dag.dag_id }}: change plan {{ task.summary.plan_version_before }}?",
            body=QUESTION,
            defaults=self.REJECT,
            response_timeout=ANSWER_WITHIN,
            **kwargs,
        )
        self.summary = summary

    def execute(self, context: Context) -> Any:
        """Pass, skip, or ask."""
        if self.summary["plan_version"] == self.summary["plan_version_before"]:
            raise AirflowSkipException(f"nothing to apply: {self.summary['reason']}")
        if context["params"]["dry_run"]:
            raise AirflowSkipException("a dry run changes nothing")
        if not context["params"]["approval"]:
            self.log.info("no approval is asked for")
            return None
        return super().execute(context)


@task
def show(summary: dict) -> str:
    """What moves, and the loads before and after, in the log and as XCom."""
    table = moves_table(summary)
    print(table)  # noqa: T201
    return table


@task(outlets=[PLANS])
def publish(summary: dict, outlet_events=None) -> None:
    """The asset event of a plan that is in force."""
    outlet_events[PLANS].extra = {name: summary[name] for name in PUBLISHED}


def change_plan(
    job: str,
    arguments: Sequence[str],
    *,
    check: Sequence[str],
    nothing_to_do: Callable[[dict[str, Any]], str | None],
    timeout: timedelta,
) -> None:
    """The tasks, in the DAG at hand; what is applied is the proposal that was shown.

    job, arguments  the entry of jobs/ that proposes, and with `--apply` carries out
    check           arguments of `pststream balance check`
    nothing_to_do   why there is nothing to plan, from what that says; else None
    """

    @task(task_id="check")
    def look(*words: str) -> dict:
        """The measured balance; skips the run if there is nothing to do."""
        found = run_job("balance", ["check", *words])
        print(found)  # noqa: T201
        if reason := nothing_to_do(found):
            raise AirflowSkipException(reason)
        return found

    arguments = [*arguments, f"--proposal={PROPOSAL}"]
    how: dict[str, Any] = {"job": job, "summarize": summarize_balance, "execution_timeout": timeout}
    plan = PagedJob(task_id="plan", arguments=arguments, **how)
    approve = Approval(task_id="approve", summary=plan.output)
    apply = PagedJob(task_id="apply", arguments=[*arguments, "--apply"], **how)
    look(*check) >> plan
    show(plan.output) >> approve >> apply
    publish(apply.output)
