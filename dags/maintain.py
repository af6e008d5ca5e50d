"""DAG `maintain`: upkeep of the tables, once a day."""

from datetime import timedelta

from airflow.sdk import DAG
from pststream_dags import forms
from pststream_dags.common import head
from pststream_dags.spark_job import SparkJob

DOC = """
Works deletions into the worker index and drops what ended, joins small files, and removes files that no reader may need
any more. The matches do not depend on it, and micro-batches go on before and after.

- **maintain** is the job (`jobs/maintain.py`, `pststream maintain`). Its XCom holds rows dropped, files before and
  after, files removed.
"""


with DAG(
    **head("maintain", "@daily"),
    description="Small files joined, what ended dropped, old files removed",
    doc_md=DOC,
    params={"home": forms.HOME},
):
    SparkJob(
        task_id="maintain",
        job="maintain",
        arguments=[forms.HOME_ARGUMENT],
        execution_timeout=timedelta(hours=2),
    )
