"""Build the DAG `term_statistics`: once a day, count the objects that have each word, for the scores of `topk`."""

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MAINTENANCE

KIND = DagKind(
    name="term_statistics",
    cron="20 1 * * *",
    priority=MAINTENANCE,
    description="Count the objects that have each word, for the scores of topk",
    add_tasks=lambda options: add_job(options, "count", job="term_statistics", hours=2),
)
