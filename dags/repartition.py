"""DAG `repartition`: computes the global partitioning anew from the recent stream, and puts it in force if it pays."""

from datetime import timedelta

from airflow.sdk import DAG, Param
from pststream_dags import forms
from pststream_dags.adjusting import APPROVAL, DRY_RUN, change_plan
from pststream_dags.common import head

from pststream import names

DOC = """
Asks the planner for a new partitioning of the recent stream, and puts it in force if it lowers the greatest load of a
worker enough. The next micro-batch runs under the new plan version; the matches do not depend on it.

- **check** reads the measured balance; without a plan yet, the run ends here, skipped: the first batch makes one.
- **plan** makes the partitioning (`jobs/repartition.py`) and keeps it as a proposal. Its XCom holds what would move,
  its cost and gain, and the loads before and after; its button *What moves* opens a page with a map.
- **show** prints the loads side by side.
- **approve** lets the proposal pass; with *Ask before applying* only after a person has approved it.
- **apply** does what was shown. If the plan has changed since, it refuses.
- **publish** writes the asset event with the new `plan_version`.

*Workers*, *From version* or *To version* ask for more: a plan with an index of its own, whatever it gains.
"""


def no_plan(found: dict) -> str | None:
    """Why there is nothing to make anew."""
    return None if found["plan_version"] else "no plan yet: the first batch makes one"


with DAG(
    **head("repartition", "30 3 * * *"),
    description="A new plan from the stored streams",
    doc_md=DOC,
    params={
        "home": forms.HOME,
        "planner": Param(
            None,
            type=["null", "string"],
            enum=[None, *names.PLANNERS],
            values_display={"None": "as the home's settings say"},
            title="Planner",
            description="How space and words are divided.",
            section="Change",
        ),
        "gain": Param(
            None,
            type=["null", "number"],
            minimum=0,
            exclusiveMaximum=1,
            title="Threshold",
            description="Part of the greatest load that the new plan must save. Empty: as the home's settings say.",
            section="Change",
        ),
        "dry_run": DRY_RUN,
        "approval": APPROVAL,
        "workers": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=10_000,
            title="Workers",
            description="Logical partitions; more than cores is fine. Empty: as many as now.",
            section="Anew",
        ),
        "from_version": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="From version",
            description="Sample the objects written after this version of the table `objects`. Empty: recent ones.",
            section="Anew",
        ),
        "to_version": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="To version",
            description="... up to and with this version. Empty: to the newest.",
            section="Anew",
        ),
    },
):
    fields = ("planner", "gain", "workers", "from_version", "to_version")
    change_plan(
        "repartition",
        [forms.HOME_ARGUMENT, *map(forms.optional, fields)],
        check=[forms.HOME_ARGUMENT],
        nothing_to_do=no_plan,
        timeout=timedelta(hours=2),
    )
