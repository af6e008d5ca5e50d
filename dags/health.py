"""DAG `health`: looks whether the home is well, and fails with one clear alert for each thing that is not."""

import os

from airflow.sdk import DAG, Param, task
from pststream_dags import forms
from pststream_dags import health as checks
from pststream_dags.common import head
from pststream_dags.plain_job import run_job

EVERY_FIVE_MINUTES = "*/5 * * * *"

DOC = """
Reads the ledgers and the watcher's heartbeat, without Spark, so it takes seconds. A task for each kind of trouble fails
if it finds it, with the remedy in its alert, and at each run until it is mended.

- **watcher**: the watcher (`pststream run --watch`) has died, or should run and does not.
- **lag**: what landed or was ingested is not matched in time.
- **balance**: the loads of the workers are far from even.
- **rejects**: too many rows of the last hour were rejected.
- **gate**: files are held in quarantine.
- **sinks**: a sink is down, or has refused messages for good.
"""
KEPT = ("watcher", "last_hour", "quarantined", "deliveries")


@task(retries=1)
def look(*words: str) -> dict:
    """The figures that the checks need."""
    document = run_job("status", words)
    figures = {name: document[name] for name in KEPT} | {"waiting_seconds": document["lag"]["seconds"]}
    return figures | {"balance": run_job("balance", ["check", *words])}


@task
def watcher(found: dict, params=None) -> str:
    """Is it alive?"""
    return checks.check_watcher(found["watcher"], params["expect_watcher"])


@task
def lag(found: dict, params=None) -> str:
    """Are matches in time?"""
    return checks.check_lag(found["waiting_seconds"], found["watcher"], params["max_lag_seconds"])


@task
def balance(found: dict, params=None) -> str:
    """Are loads even?"""
    return checks.check_imbalance(found["balance"], params["max_imbalance"])


@task
def rejects(found: dict, params=None) -> str:
    """Are most rows good?"""
    share, rows = params["max_reject_share"], params["min_rows"]
    return checks.check_reject_share(**found["last_hour"], most=share, least_rows=rows)


@task
def gate(found: dict) -> str:
    """Is nothing held?"""
    return checks.check_gate(found["quarantined"])


@task
def sinks(found: dict, params=None) -> str:
    """Do sinks take what they are told?"""
    return checks.check_sinks(found["deliveries"], params["max_dead_letters"])


def _number(default: float, title: str, description: str, **bounds: float) -> Param:
    return Param(default, type="number", title=title, description=description, section="Thresholds", **bounds)


with DAG(
    **head("health", EVERY_FIVE_MINUTES),
    description="An alert for each thing that is not well",
    doc_md=DOC,
    params={
        "home": forms.HOME,
        "expect_watcher": Param(
            os.environ.get("PSTSTREAM_EXPECT_WATCHER", "").lower() in ("1", "true", "yes"),
            type="boolean",
            title="Expect a watcher",
            description="Alert also where a watcher was asked to end, or never ran.",
            section="Thresholds",
        ),
        "max_lag_seconds": _number(300, "Lag", "Seconds that what came in may wait.", exclusiveMinimum=0),
        "max_imbalance": _number(3, "Imbalance", "Greatest load of a worker over the least.", exclusiveMinimum=1),
        "max_reject_share": _number(0.1, "Rejects", "Part of the rows of an hour.", minimum=0, maximum=1),
        "min_rows": Param(
            100,
            type="integer",
            minimum=1,
            title="Rows that tell",
            description="Rejects of fewer rows are not judged.",
            section="Thresholds",
        ),
        "max_dead_letters": Param(
            0,
            type="integer",
            minimum=0,
            title="Dead letters",
            description="Of each sink.",
            section="Thresholds",
        ),
    },
):
    figures = look(forms.HOME_ARGUMENT)
    for one in (watcher, lag, balance, rejects, gate, sinks):
        one(figures)
