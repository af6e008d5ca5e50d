"""Build the DAG `term_statistics`: once a day, count the objects that have each word, for the scores of `topk`."""

from datetime import timedelta

from airflow.sdk import DAG

from pststream.airflow.dag_options import MAINTENANCE, DagOptions
from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks import forms

DOC = """
Counts the objects that have each word, as a new version of the term statistics. From then on `topk` weighs words by it:
rare words weigh more.

- **count** is the job (`jobs/term_statistics.py`, `pststream term-statistics`). Its XCom has the version, and how many
  objects and terms it counts.
"""


def build(options: DagOptions) -> DAG:
    """Build the DAG."""
    with DAG(
        **options.dag_arguments("term_statistics", "20 1 * * *", priority=MAINTENANCE),
        description="Count the objects that have each word, for the scores of topk",
        doc_md=DOC,
        params={"home": forms.home_field(options)},
    ) as dag:
        SparkJob(
            task_id="count",
            job="term_statistics",
            arguments=[*options.home_arguments],
            execution_timeout=timedelta(hours=2),
            **options.job,
        )
    return dag
