"""DAG `adjust_load`: moves subscriptions between workers if the measured loads are out of balance."""

from datetime import timedelta

from airflow.sdk import DAG, Param
from pststream_dags import forms
from pststream_dags.adjusting import APPROVAL, DRY_RUN, change_plan
from pststream_dags.common import IMBALANCE, head

DOC = """
Moves cells from the most loaded worker to the least loaded one, when the load of the last batches is out of balance:
every hour, and after a batch that found it so (asset `pststream://imbalance`). The next micro-batch runs under the new
plan version; the matches do not depend on it.

- **check** reads the measured balance; within the threshold, the run ends here, skipped.
- **plan** decides what to move (`jobs/balance.py local`) and keeps it as a proposal. Its XCom holds what would move,
  its cost and gain, and the loads before and after; its button *What moves* opens a page with a map.
- **show** prints the moves and the loads side by side.
- **approve** lets the proposal pass; with *Ask before applying* only after a person has approved it.
- **apply** does what was shown, no more and no less. If the plan has changed since, it refuses.
- **publish** writes the asset event with the new `plan_version`.

`pststream balance undo --apply` takes the last adjustment back; `pststream balance history` tells them all.
"""


def within_sigma(found: dict) -> str | None:
    """Why no load is to be moved."""
    if found["violated"]:
        return None
    return (
        f"measured imbalance {found['measured_imbalance']} over {found['batches']} batches: balanced, or not for sure"
    )


with DAG(
    **head("adjust_load", "@hourly", after=IMBALANCE),
    description="Subscriptions from the most loaded workers to the least loaded",
    doc_md=DOC,
    params={
        "home": forms.HOME,
        "method": Param(
            "gr",
            type="string",
            enum=["gr", "dp", "si", "ra"],
            values_display={"gr": "GR, greedy", "dp": "DP, exact", "si": "SI, largest first", "ra": "RA, random"},
            title="Method",
            description="How the cells to move are selected.",
            section="Change",
        ),
        "sigma": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=1,
            title="Threshold",
            description="Greatest load over the least that counts as balanced. Empty: as the home's settings say.",
            section="Change",
        ),
        "dry_run": DRY_RUN,
        "approval": APPROVAL,
    },
):
    change_plan(
        "balance",
        ["local", forms.HOME_ARGUMENT, forms.optional("method"), forms.optional("sigma")],
        check=[forms.HOME_ARGUMENT, forms.optional("sigma")],
        nothing_to_do=within_sigma,
        timeout=timedelta(hours=1),
    )
