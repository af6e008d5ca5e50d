"""Define the first task of `micro_batch`: run its job, and skip each later task that has nothing to do."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import DownstreamTasksSkipped

from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks.data_docs import DataDocsLink
from pststream.airflow.tasks.summaries import summarize_batches

RETURN_VALUE = "return_value"
"""The key of the XCom of a returned value."""

SINCE_FIRST_TRY = "--since={{ dag_run.start_date.isoformat() if ti.try_number > 1 else '' }}"
"""The template of the argument with which the result of a retry includes what earlier tries did."""


class MatchJob(SparkJob):
    """Ingests and matches what is new. A later task without work is skipped here, so that no process starts for it."""

    operator_extra_links = (DataDocsLink(),)
    data_docs: Sequence[str] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="micro_batch", summarize=_summarize, asks_for_work=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Run the job; return its summary, after storing it if tasks are skipped."""
        summary, waiting_sinks = super().execute(context)
        self.data_docs = summary["data_docs"]
        idle = [self._neighbour(task) for task in tasks_without_work(summary, waiting_sinks)]
        if idle:
            context["ti"].xcom_push(key=RETURN_VALUE, value=summary)
            raise DownstreamTasksSkipped(tasks=idle)
        return summary

    def _neighbour(self, task: str) -> str:
        """Return the id of a task of the same task group."""
        return self.task_group.child_id(task) if self.task_group else task


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


def _summarize(outcome: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    return summarize_batches(outcome), outcome["result"]["waiting_sinks"]
