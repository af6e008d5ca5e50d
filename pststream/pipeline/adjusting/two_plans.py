"""Two active plans: which follows which, and what they load workers with (PS2Stream section V-B).

Each serves its own subscriptions, told apart by their keys, and objects go to both.
"""

from dataclasses import replace

from pststream import names
from pststream.cost.load_model import CostModel, WorkerLoads, worker_loads
from pststream.domain.plan import PartitionPlan
from pststream.domain.planner_sample import WorkloadSample
from pststream.errors import UsageError
from pststream.samples.posting_reads import with_pieces
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.state.ledger import Ledger
from pststream.state.plans import Retiring, load_plan, plan_row, retiring_plan


def parted(sample: WorkloadSample, retiring: Retiring) -> tuple[WorkloadSample, WorkloadSample]:
    """The sample with the subscriptions of the retiring plan, and with those of the newer one."""
    older = sample.piece_key <= retiring.to
    return with_pieces(sample, older), with_pieces(sample, ~older)


def loads_of(
    home: Home, sample: WorkloadSample, cost: CostModel, plan: PartitionPlan, retiring: Retiring | None
) -> WorkerLoads:
    """Loads of workers under a plan and the one that it retires; units are those of `plan`.

    An object that both plans send to a worker counts twice there: it is matched twice, with the subscriptions of each.
    """
    if retiring is None:
        return worker_loads(sample, plan, cost)
    older, newer = parted(sample, retiring)
    old = worker_loads(older, load_plan(home, retiring.plan_version), cost)
    new = worker_loads(newer, plan, cost)
    return replace(
        new,
        objects=old.objects + new.objects,
        subscriptions=old.subscriptions + new.subscriptions,
        reads=old.reads + new.reads,
        load=old.load + new.load,
    )


def next_step(home: Home, version: int, kind: str) -> tuple[str, Retiring | None]:
    """What a step of this kind is in `migrations`, and the plan that goes on serving older subscriptions after it."""
    retiring = retiring_plan(plan_row(home, version))
    if kind == "global" and retiring is None:
        return kind, Retiring(version, Ledger(home).requests_applied)
    if kind == "undo":
        return kind, taken_back(home, version)[1]
    return (kind, retiring) if kind == "local" else ("retire", None)


def taken_back(home: Home, version: int) -> tuple[int, Retiring | None]:
    """The plan that is in force when the migration that made `version` is taken back, and the one that it retires.

    Taking a retirement back gives everything to the retired plan: since then newer subscriptions may lie in one file
    with older ones, so that the two plans cannot be told apart again.
    """
    rows = ledger_tables.read(home, names.MIGRATIONS, filters=[("plan_version", "=", version)]).to_pylist()
    if not rows:
        raise UsageError(
            f"plan {version} was not made by a migration", "pststream plans list names those that there are"
        )
    if rows[0]["kind"] == "undo":
        raise UsageError(f"plan {version} has taken a migration back already", "run: pststream balance local")
    before = rows[0]["plan_version_before"]
    retiring = retiring_plan(plan_row(home, before))
    return (retiring.plan_version, None) if retiring and rows[0]["kind"] == "retire" else (before, retiring)
