"""Build the DAG `quarantine`: release or discard quarantined files; triggered by hand only."""

from airflow.sdk import Param

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MICRO_BATCH, DagOptions
from pststream.airflow.tasks import forms


def _fields(options: DagOptions) -> dict[str, Param]:
    return {
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
    }


WORDS = ("--action={{ params.action }}", "--holds={{ params.holds }}")

KIND = DagKind(
    name="quarantine",
    cron="none",
    priority=MICRO_BATCH,
    description="Release or discard quarantined files",
    fields=_fields,
    add_tasks=lambda options: add_job(options, "decide", WORDS, job="quarantine", hours=1),
)
