"""Build the DAG `maintain`: once a day, compact the worker index and the tables, and delete old files."""

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MAINTENANCE

DOC = """
Applies deletions to the worker index and drops ended subscriptions, compacts small files, and deletes files that no
reader may need any more. The matches do not depend on it, and micro-batches run before and after.

- **maintain** is the job (`jobs/maintain.py`, `pststream maintain`). Its XCom has the rows dropped, the files before
  and after, and the files removed.
"""


KIND = DagKind(
    name="maintain",
    cron="10 2 * * *",
    priority=MAINTENANCE,
    description="Compact small files, drop ended subscriptions, delete old files",
    doc=DOC,
    add_tasks=lambda options: add_job(options, "maintain", job="maintain", hours=2),
)
