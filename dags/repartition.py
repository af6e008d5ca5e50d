"""DAG `repartition`: computes the global partitioning anew from the stored streams, shows it, and puts it in force."""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG, Asset, Param, task
from airflow.sdk.exceptions import AirflowSkipException
from pststream_dags import alerts, forms
from pststream_dags.spark_job import SparkJob
from pststream_dags.summaries import loads_table, summarize_plan

from pststream import names

SCHEDULE = os.environ.get("PSTSTREAM_REPARTITION_SCHEDULE", "@daily")
PLANS = Asset(name="pststream_plans", uri=names.PLANS_ASSET)

DOC = """
Makes a new plan version from a sample of the stored objects and subscriptions. The next micro-batch runs under it; the
matches do not depend on it.

- **plan** is the job (`jobs/repartition.py`). Its XCom holds the loads before and after.
- **show** prints both side by side.
- **publish** writes the asset event with the new `plan_version`; skipped after a dry run, which stores nothing.
"""


@task
def show(summary: dict) -> str:
    """Loads before and after, in the log and as XCom."""
    table = loads_table(summary)
    print(table)  # noqa: T201
    return table


@task(outlets=[PLANS])
def publish(summary: dict, params=None, outlet_events=None) -> None:
    """The asset event of a plan that is in force."""
    if params["dry_run"]:
        raise AirflowSkipException("a dry run stores no plan")
    outlet_events[PLANS].extra = summary["after"]


with DAG(
    dag_id="repartition",
    description="A new plan from the stored streams",
    doc_md=DOC,
    schedule=None if SCHEDULE in ("", "none") else SCHEDULE,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"on_failure_callback": alerts.report_failure},
    tags=["pststream"],
    params={
        "home": forms.HOME,
        "planner": Param(
            None,
            type=["null", "string"],
            enum=[None, *names.PLANNERS],
            values_display={"None": "as the home's settings say"},
            title="Planner",
            description="How space and words are divided.",
            section="Plan",
        ),
        "workers": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=10_000,
            title="Workers",
            description="Logical partitions; more than cores is fine. Empty: as the home's settings say.",
            section="Plan",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Plan and show the loads; store nothing.",
            section="Plan",
        ),
        "from_version": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="From version",
            description="Sample the objects written after this version of the table `objects`. Empty: from the first.",
            section="Sample",
        ),
        "to_version": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="To version",
            description="... up to and with this version. Empty: to the newest.",
            section="Sample",
        ),
    },
):
    plan = SparkJob(
        task_id="plan",
        job="repartition",
        arguments=[
            forms.HOME_ARGUMENT,
            forms.optional("planner"),
            forms.optional("workers"),
            forms.flag("dry_run"),
            forms.optional("from_version"),
            forms.optional("to_version"),
        ],
        summarize=summarize_plan,
        execution_timeout=timedelta(hours=2),
    )
    show(plan.output) >> publish(plan.output)
