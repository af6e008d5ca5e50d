"""Build the DAG `term_statistics`: once a day, count the objects that have each word, for the scores of `topk`."""

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MAINTENANCE

DOC = """
Counts the objects that have each word, as a new version of the term statistics. From then on `topk` weighs words by it:
rare words weigh more.

- **count** is the job (`jobs/term_statistics.py`, `pststream term-statistics`). Its XCom has the version, and how many
  objects and terms it counts.
"""


KIND = DagKind(
    name="term_statistics",
    cron="20 1 * * *",
    priority=MAINTENANCE,
    description="Count the objects that have each word, for the scores of topk",
    doc=DOC,
    add_tasks=lambda options: add_job(options, "count", job="term_statistics", hours=2),
)
