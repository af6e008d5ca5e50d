"""Build the DAG `maintain`: once a day, compact the worker index and the tables, and delete old files."""

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MAINTENANCE

KIND = DagKind(
    name="maintain",
    cron="10 2 * * *",
    priority=MAINTENANCE,
    description="Compact small files, drop ended subscriptions, delete old files",
    add_tasks=lambda options: add_job(options, "maintain", job="maintain", hours=2),
)
