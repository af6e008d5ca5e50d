"""DAG `micro_batch`: takes in what landed, matches it, and tells whoever waits for matches."""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG, Asset, Param, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from pststream_dags import alerts, forms
from pststream_dags.delivery import deliver
from pststream_dags.spark_job import SparkJob
from pststream_dags.summaries import summarize_batches

from pststream import names

EVERY_MINUTE = "* * * * *"
SCHEDULE = os.environ.get("PSTSTREAM_MICRO_BATCH_SCHEDULE", EVERY_MINUTE)
MATCHES = Asset(name="pststream_matches", uri=names.MATCHES_ASSET)

DOC = """
Drains the landing folder: every new file in `objects/` and `requests/` is ingested, a plan is made if there is none,
and micro-batches are matched until nothing is left. One run at a time, one Spark session a run.

- **match** is the Spark job (`jobs/micro_batch.py`). Its XCom holds the counts, the plan's version and the version of
  the table `matches`. Usage, setting and input errors are not tried again; failures are, up to three times.
- **publish** writes the asset event that wakes consumers, with the same figures as its extra. Skipped when nothing was
  matched. An event is a wake-up only: read the work from the table's version.
- **deliver** tells the sinks (`jobs/deliver.py`), outside Spark's pool. It fails if one needs attention; the next run
  tells what is left.
- **check_rejects** fails the run under *Strict* if a row was rejected. What was accepted has been matched all the same.
"""


class RowsRejected(AirflowFailException):
    """Rows were rejected, and the run is strict."""


@task(outlets=[MATCHES])
def publish(summary: dict, outlet_events=None) -> None:
    """The asset event, if there is something new."""
    if not summary["batches"]:
        raise AirflowSkipException("nothing new")
    outlet_events[MATCHES].extra = summary


@task
def check_rejects(summary: dict, params=None) -> None:
    """Fail a strict run that rejected rows; say how many in any case."""
    message = f"{summary['rejected']} rows rejected: {summary['rejects_by_reason']}; see `pststream rejects`"
    if params["strict"] and summary["rejected"]:
        raise RowsRejected(message)
    print(message if summary["rejected"] else "no row was rejected")  # noqa: T201


with DAG(
    dag_id="micro_batch",
    description="Ingest and match what landed, each object exactly once",
    doc_md=DOC,
    schedule=None if SCHEDULE in ("", "none") else SCHEDULE,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"on_failure_callback": alerts.report_failure},
    tags=["pststream"],
    params={
        "home": forms.HOME,
        "landing": Param(
            None,
            type=["null", "string"],
            minLength=1,
            title="Landing folder",
            description="Holds `objects/` and `requests/`. Empty: Airflow's variable `pststream_landing`, else "
            "`PSTSTREAM_LANDING`, else `landing` in the home.",
            section="Where",
        ),
        "max_objects": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Objects per micro-batch",
            description="At most; what is more makes further micro-batches. Empty: as the home's settings say.",
            section="How",
        ),
        "strict": Param(
            False,
            type="boolean",
            title="Strict",
            description="Fail the run if a row is rejected; the accepted rows are matched all the same.",
            section="How",
        ),
    },
):
    match = SparkJob(
        task_id="match",
        job="micro_batch",
        arguments=[
            forms.HOME_ARGUMENT,
            "--landing={{ params.landing or var.value.get('pststream_landing', '') }}",
            forms.optional("max_objects"),
            forms.flag("strict"),
            "--no-deliver",
        ],
        summarize=summarize_batches,
        execution_timeout=timedelta(hours=1),
    )
    publish(match.output)
    check_rejects(match.output)
    match >> deliver(forms.HOME_ARGUMENT)
