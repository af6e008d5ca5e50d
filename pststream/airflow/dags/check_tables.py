"""Build the DAG `check_tables`: once a day, check the ledgers, the worker index and the matches."""

from airflow.sdk import Param, task
from airflow.sdk.exceptions import AirflowFailException

from pststream.airflow.dag_kind import DagKind, add_job
from pststream.airflow.dag_options import MAINTENANCE, DagOptions
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.data_docs import DataDocsJob

EXTENT = "Check the matches of all batches, not only those since the last check that passed."


class ChecksFailed(AirflowFailException):
    """A check of the tables failed; somebody needs to look at them."""


@task
def verdict(document: dict) -> None:
    """Fail with a line for each figure that is not zero and each expectation that is not met.

    The job has logged how many checks passed.
    """
    lines = [f"{one['check']}: {sentence}" for one in document["checks"] for sentence in one["failed"]]
    if lines:
        raise ChecksFailed("\n".join([*lines, "see `pststream check` and docs/input.md"]))


def _fields(options: DagOptions) -> dict[str, Param]:
    return {"home": forms.home_field(options), "all": forms.field("boolean", "All matches", EXTENT, "Checks", False)}


def _add_tasks(options: DagOptions) -> None:
    check = add_job(options, "check", [forms.flag("all")], job="check_tables", hours=2, operator=DataDocsJob)
    verdict(check.output)


KIND = DagKind(
    name="check_tables",
    cron="50 4 * * *",
    priority=MAINTENANCE,
    description="Check ledgers, worker index and matches against each other",
    fields=_fields,
    add_tasks=_add_tasks,
)
