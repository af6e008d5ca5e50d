"""Build the DAG `repartition`: once a day, make a new plan, and apply it if it lowers the load enough."""

from typing import Any

from airflow.sdk import Param

from pststream.airflow.dag_kind import DagKind
from pststream.airflow.dag_options import PLAN_CHANGE, DagOptions
from pststream.airflow.tasks import forms
from pststream.airflow.tasks.plan_change import change_plan, confirmation_fields
from pststream.base import names


def _fields(options: DagOptions) -> dict[str, Param]:
    return {
        "home": forms.home_field(options),
        "planner": Param(
            None,
            type=["null", "string"],
            enum=[None, *dict.fromkeys([*names.PLANNERS, *names.TOPK_PLANNERS])],
            values_display={"None": "the setting, or of topk the planner in force"}
            | {name: f"{name}, {'either' if name in names.PLANNERS else 'topk'}" for name in names.TOPK_PLANNERS},
            title="Planner",
            description="The algorithm that divides space and terms among the workers. One of topk makes the plan of"
            " topk subscriptions and leaves the other plan as it is.",
            section="Change",
        ),
        "kinds": Param(
            None,
            type=["null", "string"],
            enum=[None, *names.PLANNERS_OF],
            values_display={"None": "those that the planner serves, topk if both"},
            title="Kinds",
            description="The kinds of subscription whose plan is made; the plan of the others stays as it is.",
            section="Change",
        ),
        "gain": Param(
            None,
            type=["null", "number"],
            minimum=0,
            exclusiveMaximum=1,
            title="Threshold",
            description="The share of the greatest load that the new plan must save. Empty: the home's setting.",
            section="Change",
        ),
        **confirmation_fields(),
        **_new_index_fields(),
    }


def _new_index_fields() -> dict[str, Param]:
    """Return the fields of a plan that is applied in any case."""
    texts = {
        "workers": (
            "Workers",
            "The number of logical partitions, to which all subscriptions migrate; may exceed the number of cores."
            " Empty: as now.",
        ),
        "from_version": (
            "From version",
            "Sample the objects written after this version of the table `objects`. Empty: recent objects.",
        ),
        "to_version": (
            "To version",
            "Sample the objects up to and including this version. Empty: to the newest version.",
        ),
    }
    bounds: dict[str, dict[str, Any]] = {"workers": {"minimum": 1, "maximum": 10_000}}
    return {
        name: forms.field("integer", *text, "In any case", **bounds.get(name, {"minimum": 0}))
        for name, text in texts.items()
    }


KIND = DagKind(
    name="repartition",
    cron="30 3 * * *",
    priority=PLAN_CHANGE,
    description="Make a new plan from the recent stream",
    fields=_fields,
    add_tasks=lambda options: change_plan(
        options,
        "repartition",
        list(map(forms.optional, ("planner", "kinds", "gain", "workers", "from_version", "to_version"))),
        check=[],
        nothing_to_do=lambda measured: None if measured["plan_version"] else "no plan yet: the first batch makes one",
        hours=2,
    ),
)
