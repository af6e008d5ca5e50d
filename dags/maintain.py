"""DAG `maintain`: upkeep of the tables, once a day."""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG
from pststream_dags import alerts, forms
from pststream_dags.spark_job import SparkJob

SCHEDULE = os.environ.get("PSTSTREAM_MAINTAIN_SCHEDULE", "@daily")

DOC = """
Works deletions into the worker index and drops what ended, joins small files, and removes files that no reader may need
any more. The matches do not depend on it, and micro-batches go on before and after.

- **maintain** is the job (`jobs/maintain.py`, `pststream maintain`). Its XCom holds rows dropped, files before and
  after, files removed.
"""


with DAG(
    dag_id="maintain",
    description="Small files joined, what ended dropped, old files removed",
    doc_md=DOC,
    schedule=None if SCHEDULE in ("", "none") else SCHEDULE,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"on_failure_callback": alerts.report_failure},
    tags=["pststream"],
    params={"home": forms.HOME},
):
    SparkJob(
        task_id="maintain",
        job="maintain",
        arguments=[forms.HOME_ARGUMENT],
        execution_timeout=timedelta(hours=2),
    )
