"""Build the DAG `pairs`: once an hour, bring the table `gold/pairs` up to the last batch."""

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MAINTENANCE

DOC = """
Writes the pairs of new batches to the Delta table `gold/pairs` of the home, and deletes those that they retract, for
other programs. It does nothing while the setting `pairs_table` is `never`, the default.

- **update** is the job (`jobs/pairs.py`, `pststream pairs`). Its XCom has the batches and the rows.
"""


KIND = DagKind(
    name="pairs",
    cron="15 * * * *",
    priority=MAINTENANCE,
    description="Write the pairs of new batches to the table gold/pairs",
    doc=DOC,
    add_tasks=lambda options: add_job(options, "update", job="pairs", hours=2),
)
