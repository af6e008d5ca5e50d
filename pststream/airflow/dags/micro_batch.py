"""Build the DAG `micro_batch`: every minute, ingest landed files, match them, and deliver the matches to the sinks."""

from airflow.sdk import Param

from pststream.airflow.dag_kind import DagKind
from pststream.airflow.dag_options import MICRO_BATCH, DagOptions
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.micro_batch_tasks import add_micro_batch_tasks


def _fields(options: DagOptions) -> dict[str, Param]:
    return {
        "home": forms.home_field(options),
        "landing": forms.landing_field(options),
        "max_objects": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Objects per micro-batch",
            description="Maximum; further objects go into further micro-batches. Empty: the home's setting.",
            section="How",
        ),
        "strict": Param(
            False,
            type="boolean",
            title="Strict",
            description="Fail the run if a row is rejected. The accepted rows are matched all the same.",
            section="How",
        ),
    }


KIND = DagKind(
    name="micro_batch",
    cron="* * * * *",
    priority=MICRO_BATCH,
    description="Ingest and match landed files, each object exactly once",
    fields=_fields,
    add_tasks=add_micro_batch_tasks,
)
