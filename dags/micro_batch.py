"""DAG `micro_batch`: every minute, ingest landed files, match them, and deliver the matches to the sinks."""

from datetime import timedelta

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from pststream.airflow.dag_defaults import IMBALANCE, MATCHES, dag_defaults
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.delivery import deliver
from pststream.airflow.tasks.match_job import MatchJob

EVERY_MINUTE = "* * * * *"

DOC = """
Ingests every new file in `objects/` and `requests/` of the landing folder, makes a plan if there is none, and runs
micro-batches until nothing is pending. One run at a time. A small run starts no JVM; a run without anything new only
asks the ledgers, skips all later tasks and ends.

- **match** is the job (`jobs/micro_batch.py`), a process of the task or a Spark job, as the setting `engine` and the
  connection say. Its XCom has the counts, the plan version and the version of the table `matches`. Usage, setting and
  input errors are not retried; failures are retried up to three times, and the last try reports what all tries have
  done. Each task below that would have nothing to do is skipped.
- **publish** writes the asset event that triggers consumers, with the same figures as its extra, if there was a batch.
  The event is a trigger only: read the matches from the version of the table.
- **deliver** sends the messages to the sinks (`jobs/deliver.py`), outside the pool, if a sink waits for some. It also
  runs if the match failed, for the batches before. It fails if a sink needs attention; the next run sends the rest.
- **check_balance** writes the event that starts `adjust_load` if the batches measured an imbalance, once for each plan
  version. An imbalance that an adjustment could not correct waits for the hourly run.
- **check_rejects** fails the run under *Strict* if a row was rejected. The accepted rows are matched all the same.
"""


class RowsRejected(AirflowFailException):
    """Rows were rejected in a strict run."""


@task(outlets=[MATCHES])
def publish(summary: dict, outlet_events=None) -> None:
    """Write the asset event if there was a batch."""
    if not summary["batches"]:
        raise AirflowSkipException("no batch was run")
    outlet_events[MATCHES].extra = summary


@task(inlets=[IMBALANCE], outlets=[IMBALANCE])
def check_balance(summary: dict, inlet_events=None, outlet_events=None) -> None:
    """Write the event that starts an adjustment, once for each plan version that is out of balance."""
    measured = summary["balance"]
    if not measured or not measured["violated"]:
        raise AirflowSkipException(f"the workers are in balance: {measured}")
    measured = measured | {"home": summary["home"]}
    last = list(inlet_events[IMBALANCE].ascending(False).limit(1))
    if last and all(last[0].extra.get(name) == measured[name] for name in ("home", "plan_version")):
        raise AirflowSkipException(f"the event for plan {measured['plan_version']} was written before")
    outlet_events[IMBALANCE].extra = measured


@task
def check_rejects(summary: dict, params=None) -> None:
    """Log how many rows were rejected; fail a strict run if there are any."""
    message = f"{summary['rejected']} rows rejected: {summary['rejects_by_reason']}; see `pststream rejects`"
    if params["strict"] and summary["rejected"]:
        raise RowsRejected(message)
    print(message)  # noqa: T201


with DAG(
    **dag_defaults("micro_batch", EVERY_MINUTE),
    description="Ingest and match landed files, each object exactly once",
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
    },
):
    match = MatchJob(
        task_id="match",
        arguments=[
            forms.HOME_ARGUMENT,
            "--landing={{ params.landing or var.value.get('pststream_landing', '') }}",
            forms.optional("max_objects"),
            forms.flag("strict"),
            "--since={{ dag_run.start_date.isoformat() if ti.try_number > 1 else '' }}",
            "--no-deliver",
        ],
        execution_timeout=timedelta(hours=1),
    )
    publish(match.output)
    check_balance(match.output)
    check_rejects(match.output)
    match >> deliver(forms.HOME_ARGUMENT)
