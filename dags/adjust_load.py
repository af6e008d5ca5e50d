"""DAG `adjust_load`: moves subscriptions between workers if the measured loads are out of balance."""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG, Asset, Param, task
from airflow.sdk.exceptions import AirflowSkipException
from pststream_dags import alerts, forms
from pststream_dags.spark_job import SparkJob
from pststream_dags.summaries import moves_table, summarize_balance

from pststream import names

SCHEDULE = os.environ.get("PSTSTREAM_ADJUST_LOAD_SCHEDULE", "@hourly")
PLANS = Asset(name="pststream_plans", uri=names.PLANS_ASSET)

DOC = """
Moves cells from the most loaded worker to the least loaded one, when the load of the last batches is out of balance.
The next micro-batch runs under the new plan version; the matches do not depend on it.

- **balance** is the job (`jobs/adjust_load.py`). Its XCom holds what moved, its cost and gain, and the loads before and
  after. If nothing is out of balance, nothing changes.
- **show** prints the moves and the loads side by side.
- **publish** writes the asset event with the new `plan_version`; skipped where nothing changed.

`pststream balance undo --apply` takes the last adjustment back.
"""


@task
def show(summary: dict) -> str:
    """What moved, and the loads before and after, in the log and as XCom."""
    table = moves_table(summary)
    print(table)  # noqa: T201
    return table


@task(outlets=[PLANS])
def publish(summary: dict, outlet_events=None) -> None:
    """The asset event of a plan that is in force."""
    if summary["dry_run"] or not summary["moves"]:
        raise AirflowSkipException("the plan was not changed")
    outlet_events[PLANS].extra = {name: summary[name] for name in ("plan_version", "moved_subscriptions", "gain")}


with DAG(
    dag_id="adjust_load",
    description="Subscriptions from the most loaded workers to the least loaded",
    doc_md=DOC,
    schedule=None if SCHEDULE in ("", "none") else SCHEDULE,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"on_failure_callback": alerts.report_failure},
    tags=["pststream"],
    params={
        "home": forms.HOME,
        "method": Param(
            "gr",
            type="string",
            enum=["gr", "dp", "si", "ra"],
            values_display={"gr": "GR, greedy", "dp": "DP, exact", "si": "SI, largest first", "ra": "RA, random"},
            title="Method",
            description="How the cells to move are selected.",
            section="Adjustment",
        ),
        "sigma": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=1,
            title="Threshold",
            description="Greatest load over the least that counts as balanced. Empty: as the home's settings say.",
            section="Adjustment",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Show what would move; change nothing.",
            section="Adjustment",
        ),
    },
):
    balance = SparkJob(
        task_id="balance",
        job="adjust_load",
        arguments=[forms.HOME_ARGUMENT, forms.optional("method"), forms.optional("sigma"), forms.flag("dry_run")],
        summarize=summarize_balance,
        execution_timeout=timedelta(hours=1),
    )
    show(balance.output)
    publish(balance.output)
