"""Define the first task of `micro_batch`: run its job, and skip each later task that has nothing to do."""

from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import DownstreamTasksSkipped
from pststream_dags.spark_job import SparkJob
from pststream_dags.summaries import summarize_batches

RETURN_VALUE = "return_value"


class MatchJob(SparkJob):
    """Ingests and matches what is new. A later task without work is skipped here, so that no process starts for it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="micro_batch", summarize=summarize_batches, asks_for_work=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Run the job; return its summary, or store it and skip tasks."""
        summary = super().execute(context)
        idle = [task for task, has_work in has_work_by_task(summary).items() if not has_work]
        if idle:
            context["ti"].xcom_push(key=RETURN_VALUE, value=summary)
            raise DownstreamTasksSkipped(tasks=idle)
        return summary


def has_work_by_task(summary: dict[str, Any]) -> dict[str, bool]:
    """Return for each task after the match whether it has anything to do."""
    measured = summary["balance"]
    return {
        "publish": summary["batches"] > 0,
        "deliver": bool(summary["waiting_sinks"]),
        "check_balance": bool(measured and measured["violated"]),
        "check_rejects": summary["rejected"] > 0,
    }
