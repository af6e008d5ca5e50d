"""Build the DAG `quarantine`: release or discard quarantined files; triggered by hand only."""

from datetime import timedelta

from airflow.sdk import DAG, Param

from pststream.airflow.dag_options import MICRO_BATCH, DagOptions
from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks import forms

DOC = """
Releases or discards quarantined files. `pststream quarantine list` shows their numbers, and why each is in quarantine.

- **decide** is the job (`jobs/quarantine.py`, `pststream quarantine release | discard`). Its XCom has the numbers of
  accepted and rejected rows, or the discarded files. A released file is ingested at once; the next micro-batch matches
  it.
"""


def build(options: DagOptions) -> DAG:
    """Build the DAG."""
    with DAG(
        **options.dag_arguments("quarantine", "none", priority=MICRO_BATCH),
        description="Release or discard quarantined files",
        doc_md=DOC,
        params={
            "home": forms.home_field(options),
            "action": Param(
                "release",
                type="string",
                enum=["release", "discard"],
                values_display={"release": "Release: ingest the files", "discard": "Discard: drop the files"},
                title="Action",
                description="Ingest the files without the landing gate, or drop them.",
                section="Decision",
            ),
            "holds": Param(
                type="string",
                pattern=r"^\s*[1-9][0-9]*([\s,]+[1-9][0-9]*)*\s*$",
                title="Files",
                description="Numbers of the quarantined files, for example 3 or 3, 5.",
                section="Decision",
            ),
        },
    ) as dag:
        SparkJob(
            task_id="decide",
            job="quarantine",
            arguments=[*options.home_arguments, "--action={{ params.action }}", "--holds={{ params.holds }}"],
            execution_timeout=timedelta(hours=1),
            **options.job,
        )
    return dag
