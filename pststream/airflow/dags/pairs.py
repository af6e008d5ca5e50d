"""Build the DAG `pairs`: once an hour, bring the table `gold/pairs` up to the last batch."""

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MAINTENANCE

KIND = DagKind(
    name="pairs",
    cron="15 * * * *",
    priority=MAINTENANCE,
    description="Write the pairs of new batches to the table gold/pairs",
    add_tasks=lambda options: add_job(options, "update", job="pairs", hours=2),
)
