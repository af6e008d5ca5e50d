"""DAG `quarantine`: takes in files that a landing gate holds, or gives them up; started from its form alone."""

from datetime import timedelta

from airflow.sdk import DAG, Param
from pststream_dags import forms
from pststream_dags.common import head
from pststream_dags.spark_job import SparkJob

DOC = """
Decides on files that a landing gate holds. `pststream quarantine list` shows their numbers and why they are held.

- **decide** is the job (`jobs/quarantine.py`, `pststream quarantine release | discard`). Its XCom holds what was
  accepted and rejected, or what was discarded. A released file takes its place in the log now; the next micro-batch
  matches it.
"""


with DAG(
    **head("quarantine", "none"),
    description="Held files taken in all the same, or given up",
    doc_md=DOC,
    params={
        "home": forms.HOME,
        "action": Param(
            "release",
            type="string",
            enum=["release", "discard"],
            values_display={"release": "Release: take it in", "discard": "Discard: give it up"},
            title="Action",
            description="What becomes of the files.",
            section="Decision",
        ),
        "holds": Param(
            type="string",
            pattern=r"^\s*[1-9][0-9]*([\s,]+[1-9][0-9]*)*\s*$",
            title="Holds",
            description="Numbers of the held files, as 3 or 3, 5.",
            section="Decision",
        ),
    },
):
    SparkJob(
        task_id="decide",
        job="quarantine",
        arguments=[forms.HOME_ARGUMENT, "--action={{ params.action }}", "--holds={{ params.holds }}"],
        execution_timeout=timedelta(hours=1),
    )
