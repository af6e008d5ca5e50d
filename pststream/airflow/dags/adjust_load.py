"""Build the DAG `adjust_load`: every hour, move raster cells between workers that are out of balance."""

from airflow.sdk import Param

from pststream.airflow.dag_kind import DagKind
from pststream.airflow.dag_options import PLAN_CHANGE, DagOptions
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.plan_change import change_plan, confirmation_fields
from pststream.base import names
from pststream.plans.imbalance import imbalance_text

METHODS = {
    "gr": "GR, greedy",
    "dp": "DP, exact",
    "si": "SI, largest first",
    "ra": "RA, random",
    "shift": "Split, merge and shift rectangles (Tornado)",
    "pm": "PM, units of two workers (SSTD)",
    "fm": "FM, units of all workers (SSTD)",
    "pm_fm": "PM, then FM if needed (SSTD)",
    "fg": "FG, split and merge nodes of a tree (SSTD)",
    "pm_fm_fg": "PM, then FM, then FG if needed (SSTD)",
}
"""What the form calls the methods of `names.BALANCERS`."""


def why_balanced(measured: dict) -> str | None:
    """Return the reason why no load needs to move; None if `sigma` is violated."""
    if measured["violated"]:
        return None
    figures = f"measured imbalance {imbalance_text(measured['measured_imbalance'])}, batches: {measured['batches']}"
    return f"{figures}; balanced, or too few batches to be sure"


def _fields(options: DagOptions) -> dict[str, Param]:
    return {
        "home": forms.home_field(options),
        "method": Param(
            "gr",
            type="string",
            enum=list(names.BALANCERS),
            values_display=METHODS,
            title="Method",
            description="The algorithm that selects the raster cells or units to move.",
            section="Change",
        ),
        "sigma": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=1,
            title="Threshold",
            description="The greatest load over the least that counts as balanced. Empty: the home's setting.",
            section="Change",
        ),
        **confirmation_fields(),
    }


KIND = DagKind(
    name="adjust_load",
    cron="@hourly",
    after="imbalance",
    priority=PLAN_CHANGE,
    description="Move subscriptions from the most loaded workers to the least loaded",
    fields=_fields,
    add_tasks=lambda options: change_plan(
        options,
        "balance",
        ["local", forms.optional("method"), forms.optional("sigma")],
        check=[forms.optional("sigma")],
        nothing_to_do=why_balanced,
        hours=1,
    ),
)
