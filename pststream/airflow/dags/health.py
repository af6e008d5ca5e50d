"""Build the DAG `health`: check a home every five minutes; alert when a problem begins and when it is solved."""

import logging
import os
from typing import Any

from airflow.sdk import Param, task

from pststream.airflow.alerts import AlertOnChange
from pststream.airflow.dag_kind import DagKind
from pststream.airflow.dag_options import MAINTENANCE, DagOptions
from pststream.airflow.runners.job_process import run_job
from pststream.airflow.tasks import forms, health_checks

DOC = """
Reads the ledgers and the watcher's heartbeat, without Spark, in seconds. There is one task for each kind of problem. It
fails at each run until the problem is solved. It sends one alert, which says what to do, when the problem begins, and
one message when it is solved; the folder `health` of the home stores what is failing. Each sink and each quarantined
file is a problem of its own.

- **watcher**: the watcher (`pststream run --watch`) has died, or should run and does not.
- **lag**: files that landed or were ingested are not matched in time.
- **balance**: the loads of the workers are far out of balance.
- **rejects**: too many rows of the last hour were rejected.
- **clock**: the watermark is ahead of the clock, so that objects of the present are late.
- **gate**: files are in quarantine.
- **sinks**: a sink is down, or has too many dead letters.
"""
FIELDS = ("watcher", "last_hour", "watermark", "watermark_ahead_seconds", "quarantined_ids", "deliveries")

log = logging.getLogger(__name__)


def _passed(text: str) -> str:
    """Log what a check that passes says, which is also its XCom; one that fails raises its alert."""
    log.info("%s", text)
    return text


@task(retries=1)
def read_status(home: list[str], aws_conn_id: str | None) -> dict:
    """Return the figures that the checks need."""
    document = run_job("status", home, aws_conn_id=aws_conn_id)
    figures = {name: document[name] for name in FIELDS} | {"waiting_seconds": document["lag"]["seconds"]}
    return figures | {"balance": run_job("check_balance", home, aws_conn_id=aws_conn_id)}


@task
def watcher(status: dict, params: Any = None) -> str:
    """Check that the watcher is alive."""
    return _passed(health_checks.check_watcher(status["watcher"], params["expect_watcher"]))


@task
def lag(status: dict, params: Any = None) -> str:
    """Check that files are matched in time."""
    return _passed(health_checks.check_lag(status["waiting_seconds"], status["watcher"], params["max_lag_seconds"]))


@task
def balance(status: dict, params: Any = None) -> str:
    """Check that the loads of the workers are balanced."""
    return _passed(health_checks.check_imbalance(status["balance"], params["max_imbalance"]))


@task
def rejects(status: dict, params: Any = None) -> str:
    """Check that few rows of the last hour were rejected."""
    share, rows = params["max_reject_share"], params["min_rows"]
    return _passed(health_checks.check_reject_share(**status["last_hour"], max_share=share, min_rows=rows))


@task
def clock(status: dict) -> str:
    """Check that the watermark is not ahead of the clock."""
    return _passed(health_checks.check_watermark(status["watermark"], status["watermark_ahead_seconds"]))


@task
def gate(status: dict) -> str:
    """Check that no file is in quarantine."""
    return _passed(health_checks.check_quarantine(status["quarantined_ids"]))


@task
def sinks(status: dict, params: Any = None) -> str:
    """Check that the sinks accept their messages."""
    return _passed(health_checks.check_sinks(status["deliveries"], params["max_dead_letters"]))


def _add_tasks(options: DagOptions) -> None:
    figures = read_status(options.home_arguments, aws_conn_id=options.aws_conn_id)
    for check in (watcher, lag, balance, rejects, clock, gate, sinks):
        check(figures)


def _fields(options: DagOptions) -> dict[str, Param]:
    expected, where = os.environ.get("PSTSTREAM_EXPECT_WATCHER", "").lower() in ("1", "true", "yes"), "Thresholds"
    return {
        "home": forms.home_field(options),
        "expect_watcher": forms.field(
            "boolean", "Expect a watcher", "Alert also if the watcher was stopped or has never run.", where, expected
        ),
        "max_lag_seconds": forms.field(
            "number", "Lag", "Seconds that a landed or ingested file may wait.", where, 300, exclusiveMinimum=0
        ),
        "max_imbalance": forms.field(
            "number", "Imbalance", "The greatest load of a worker over the least.", where, 3, exclusiveMinimum=1
        ),
        "max_reject_share": forms.field(
            "number", "Rejects", "The share of rejected rows in an hour.", where, 0.1, minimum=0, maximum=1
        ),
        "min_rows": forms.field(
            "integer",
            "Minimum rows",
            "The share of rejects is checked from this number of rows on.",
            where,
            100,
            minimum=1,
        ),
        "max_dead_letters": forms.field(
            "integer", "Dead letters", "Dead letters that each sink may have.", where, 0, minimum=0
        ),
    }


KIND = DagKind(
    name="health",
    cron="*/5 * * * *",
    priority=MAINTENANCE,
    description="Alert for each problem of a home",
    doc=DOC,
    fields=_fields,
    add_tasks=_add_tasks,
    callbacks=lambda options: AlertOnChange(options).callbacks,
)
