"""Add up worker loads under two active plans, the plan in force and an older one that it retires.

Each plan serves its own subscriptions, separated by their keys, and objects go to the workers of both plans (PS2Stream
section V-B). The module also returns which plan is retiring after an adjustment or an undo, for balance.py and
decide_adjustment.py.
"""

from dataclasses import replace

import pyarrow.dataset as pds

from pststream import names
from pststream.cost.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.delta_tables import read_table
from pststream.domain.plan import PartitionPlan
from pststream.domain.planner_sample import WorkloadSample
from pststream.errors import UsageError
from pststream.ledgers.log_end import Ledger
from pststream.samples.posting_reads import keep_pieces
from pststream.state.home import Home
from pststream.state.plans import Retiring, load_plan, read_plan_row, retiring_plan


def split_sample(sample: WorkloadSample, retiring: Retiring) -> tuple[WorkloadSample, WorkloadSample]:
    """Return the sample twice: with the subscriptions of the retiring plan, and with those of the newer plan."""
    older = sample.piece_key <= retiring.to
    return keep_pieces(sample, older), keep_pieces(sample, ~older)


def combined_loads(
    home: Home, sample: WorkloadSample, cost: CostModel, plan: PartitionPlan, retiring: Retiring | None
) -> WorkerLoads:
    """Return the loads of the workers under `plan` and the plan that it retires; loads by unit are of `plan` only.

    An object that both plans send to a worker counts twice there: it is matched twice, with the subscriptions of each.
    """
    if retiring is None:
        return compute_worker_loads(sample, plan, cost)
    older, newer = split_sample(sample, retiring)
    old = compute_worker_loads(older, load_plan(home, retiring.plan_version), cost)
    new = compute_worker_loads(newer, plan, cost)
    return replace(
        new,
        objects=old.objects + new.objects,
        subscriptions=old.subscriptions + new.subscriptions,
        reads=old.reads + new.reads,
        load=old.load + new.load,
    )


def retiring_after(home: Home, version: int, kind: str) -> tuple[str, Retiring | None]:
    """Return the kind to log in `migrations` for an adjustment, and the plan that is retiring after it.

    Kind `global` is logged as `retire` if two plans are active already, since it then retires the older one.
    """
    if kind == "undo":
        return kind, plan_after_undo(home, version)[1]
    retiring = retiring_plan(read_plan_row(home, version))
    if kind == "local":
        return kind, retiring
    if kind == "global" and retiring is None:
        return kind, Retiring(version, Ledger(home).requests_applied)
    return "retire", None


def plan_after_undo(home: Home, version: int) -> tuple[int, Retiring | None]:
    """Return the plan to put in force to undo the migration that made `version`, and the plan that is then retiring.

    The undo of a retirement assigns all subscriptions to the retired plan, and no plan is retiring: newer and older
    subscriptions may be in one file since the retirement, so the two plans cannot be separated again.
    """
    rows = read_table(home.table(names.MIGRATIONS), filter=pds.field("plan_version") == version).to_pylist()
    if not rows:
        raise UsageError(f"plan {version} was not made by a migration", "pststream plans list names those that were")
    if rows[0]["kind"] == "undo":
        raise UsageError(f"plan {version} already undoes a migration", "run: pststream balance local")
    before = rows[0]["plan_version_before"]
    retiring = retiring_plan(read_plan_row(home, before))
    return (retiring.plan_version, None) if retiring and rows[0]["kind"] == "retire" else (before, retiring)
