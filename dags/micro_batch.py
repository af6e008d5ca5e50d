"""DAG `micro_batch`: takes in what landed, matches it, and tells whoever waits for matches."""

from datetime import timedelta

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from pststream_dags import forms
from pststream_dags.common import IMBALANCE, MATCHES, head
from pststream_dags.delivery import deliver
from pststream_dags.spark_job import SparkJob
from pststream_dags.summaries import summarize_batches

EVERY_MINUTE = "* * * * *"

DOC = """
Drains the landing folder: every new file in `objects/` and `requests/` is ingested, a plan is made if there is none,
and micro-batches are matched until nothing is left. One run at a time, one Spark session a run.

- **match** is the Spark job (`jobs/micro_batch.py`). Its XCom holds the counts, the plan's version and the version of
  the table `matches`. Usage, setting and input errors are not tried again; failures are, up to three times, and the
  last try tells what all have done.
- **publish** writes the asset event that wakes consumers, with the same figures as its extra. Skipped when nothing was
  matched. An event is a wake-up only: read the work from the table's version.
- **deliver** tells the sinks (`jobs/deliver.py`), outside Spark's pool. It fails if one needs attention; the next run
  tells what is left.
- **check_balance** writes the event that starts `adjust_load`, if the batches found the workers out of balance: once
  for each plan version. What an adjustment could not mend waits for its hourly run.
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


@task(inlets=[IMBALANCE], outlets=[IMBALANCE])
def check_balance(summary: dict, inlet_events=None, outlet_events=None) -> None:
    """The event that starts an adjustment, once for each plan version that is out of balance."""
    found = summary["balance"]
    if not found or not found["violated"]:
        raise AirflowSkipException(f"no violated balance: {found}")
    found = found | {"home": summary["home"]}
    last = list(inlet_events[IMBALANCE].ascending(False).limit(1))
    if last and all(last[0].extra.get(name) == found[name] for name in ("home", "plan_version")):
        raise AirflowSkipException(f"told before, of plan {found['plan_version']}")
    outlet_events[IMBALANCE].extra = found


@task
def check_rejects(summary: dict, params=None) -> None:
    """Fail a strict run that rejected rows; say how many in any case."""
    message = f"{summary['rejected']} rows rejected: {summary['rejects_by_reason']}; see `pststream rejects`"
    if params["strict"] and summary["rejected"]:
        raise RowsRejected(message)
    print(message if summary["rejected"] else "no row was rejected")  # noqa: T201


with DAG(
    **head("micro_batch", EVERY_MINUTE),
    description="Ingest and match what landed, each object exactly once",
    doc_md=DOC,
    params={
        "home": forms.HOME,
        "landing": Param(
            None,
            type=["null", "string"],
            minLength=1,
            title="Landing folder",
            description="A folder or `s3://bucket/prefix` with `objects/` and `requests/`. Empty: Airflow's "
            "variable `pststream_landing`, else `PSTSTREAM_LANDING`, else `landing` in the home.",
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
            "--since={{ dag_run.start_date.isoformat() if ti.try_number > 1 else '' }}",
            "--no-deliver",
        ],
        summarize=summarize_batches,
        execution_timeout=timedelta(hours=1),
    )
    publish(match.output)
    check_balance(match.output)
    check_rejects(match.output)
    match >> deliver(forms.HOME_ARGUMENT)
