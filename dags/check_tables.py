"""DAG `check_tables`: the tables against each other, once a day."""

from datetime import timedelta

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException
from pststream_dags import forms
from pststream_dags.common import head
from pststream_dags.spark_job import SparkJob

DOC = """
Checks that the ledgers are complete, that each live subscription is with exactly the workers that its plan says, and
that matches lie within what their batch took. The results are rows of the table `quality_results`.

- **check** is the job (`jobs/check_tables.py`, `pststream check`). Its XCom holds the figures of each check.
- **verdict** fails, once, if a check failed, and says what is wrong.
"""


class ChecksFailed(AirflowFailException):
    """A check of the tables failed: they need somebody to look at them."""


@task
def verdict(document: dict) -> None:
    """Fail with a line for each figure that is off."""
    lines = [f"{one['check']}: {sentence}" for one in document["checks"] for sentence in one["failed"]]
    if lines:
        raise ChecksFailed("\n".join([*lines, "see `pststream check` and docs/quality.md"]))
    print(f"{len(document['checks'])} checks passed")  # noqa: T201


with DAG(
    **head("check_tables", "@daily"),
    description="Ledgers, worker index and matches checked against each other",
    doc_md=DOC,
    params={
        "home": forms.HOME,
        "all": Param(
            False,
            type="boolean",
            title="All matches",
            description="Check the matches of all batches, not only of those since the last check that passed.",
            section="Checks",
        ),
    },
):
    check = SparkJob(
        task_id="check",
        job="check_tables",
        arguments=[forms.HOME_ARGUMENT, forms.flag("all")],
        execution_timeout=timedelta(hours=2),
    )
    verdict(check.output)
