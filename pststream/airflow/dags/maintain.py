"""Build the DAG `maintain`: once a day, compact the worker index and the tables, and delete old files."""

from datetime import timedelta

from airflow.sdk import DAG

from pststream.airflow.dag_options import MAINTENANCE, DagOptions
from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks import forms

DOC = """
Applies deletions to the worker index and drops ended subscriptions, compacts small files, and deletes files that no
reader may need any more. The matches do not depend on it, and micro-batches run before and after.

- **maintain** is the job (`jobs/maintain.py`, `pststream maintain`). Its XCom has the rows dropped, the files before
  and after, and the files removed.
"""


def build(options: DagOptions) -> DAG:
    """Build the DAG."""
    with DAG(
        **options.dag_arguments("maintain", "10 2 * * *", priority=MAINTENANCE),
        description="Compact small files, drop ended subscriptions, delete old files",
        doc_md=DOC,
        params={"home": forms.home_field(options)},
    ) as dag:
        SparkJob(
            task_id="maintain",
            job="maintain",
            arguments=[*options.home_arguments],
            execution_timeout=timedelta(hours=2),
            **options.job,
        )
    return dag
