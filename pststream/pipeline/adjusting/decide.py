"""What load adjustment would do, and why: decided on the measured balance and a sample of what is recent."""

from dataclasses import replace

import numpy as np

from pststream.balancing.local_adjustment import Adjustment, adjust_locally
from pststream.balancing.worker_mapping import map_workers, relabelled, shared_pieces
from pststream.cost.load_model import CostModel, worker_loads
from pststream.domain.plan import PartitionPlan
from pststream.domain.plan_moves import Move, changed_cells
from pststream.domain.planner_sample import WorkloadSample
from pststream.errors import UsageError
from pststream.partitioning.registry import make_plan
from pststream.pipeline.adjusting.measured_loads import Balance, measured_balance, out_of_balance
from pststream.pipeline.adjusting.proposal import Decision
from pststream.pipeline.adjusting.two_plans import loads_of, parted, taken_back
from pststream.pipeline.planning.draw_sample import draw_sample
from pststream.progress import Progress
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.plans import load_plan, load_ranking, plan_row, retiring_plan


def _recent(home: Home, settings: Settings, version: int, measured: Balance) -> tuple[WorkloadSample, CostModel]:
    """The objects of the last batches and the live subscriptions, posted as the index posts them; and what they cost.

    Departure from Definition 1, where subscriptions are those inserted in the period: here they are all that are live,
    so each costs its share of what the insertions and deletions of the period cost.
    """
    sample, _ = draw_sample(home, settings, after_key=measured.first_key, ranking=load_ranking(home, version))
    live = max(sample.pieces * sample.subscription_scale, 1.0)
    cost = CostModel.of(settings)
    changes = (measured.insertions * cost.insert + measured.deletions * cost.delete) / live
    return sample, replace(cost, insert=min(changes, cost.insert + cost.delete), delete=0.0)


def as_measured(
    sample: WorkloadSample, plan: PartitionPlan, cost: CostModel, older: np.ndarray, seconds: np.ndarray
) -> tuple[CostModel, np.ndarray]:
    """The model in the seconds that were measured, and what each worker took besides what the model tells: together
    they give the workers the load that they had, and the model only tells what a move changes.

    older, seconds  float64[workers]: load under a plan that is being retired, as told; CPU seconds as measured

    Source: PS2Stream section V takes loads as given. A sample knows a worker's objects, but not what the texts of
    its area make of them: the load that it tells of one of eight workers is out by up to a third.
    """
    told = worker_loads(sample, plan, cost).load
    scale = float(seconds.sum()) / max(float(told.sum() + older.sum()), 1e-12)
    return replace(cost, **{name: scale * value for name, value in vars(cost).items()}), seconds - scale * told


def _adjusted(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """Cells to move, if the measured balance is violated. They are moved until half of what `sigma` allows is left, so
    that the next batches do not violate it at once. Of two active plans only the newer one is changed.
    """
    measured = measured_balance(home, version, settings.balance_batches)
    told = f"measured imbalance {measured.imbalance:.3g} over {measured.batches} batches"
    if not out_of_balance(measured, settings):
        return Decision(f"{told}: within {settings.sigma:g}, or not in both halves of them", measured.imbalance)
    progress(f"{told}: looking for cells to move")
    sample, cost = _recent(home, settings, version, measured)
    plan, retiring = load_plan(home, version), retiring_plan(plan_row(home, version))
    older = np.zeros(plan.workers)
    if retiring:
        left, sample = parted(sample, retiring)
        older = worker_loads(left, load_plan(home, retiring.plan_version), cost).load
    cost, besides = as_measured(sample, plan, cost, older, measured.typical)
    aim = 1 + (settings.sigma - 1) / 2
    found = adjust_locally(sample, plan, cost, method, aim, version, besides)
    if not found.moves:
        return Decision(f"{told}; no move would lower the greatest load of the sample", measured.imbalance)
    return Decision(told, measured.imbalance, found)


def _repartitioned(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """A new partitioning over as many workers, if it lowers the greatest load of a recent sample enough; where two
    plans are active already, the retirement of the older one, if few subscriptions are left under it.

    The old plan goes on serving the subscriptions that there are, the new one serves those to come (PS2Stream section
    V-B), so nothing is copied. Its parts go to the workers that hold most of them already, by the setting `mapping`,
    so that few of the old subscriptions will move when the old plan is retired.
    """
    if retiring_plan(plan_row(home, version)):
        return _retired(home, settings, version, method, progress, settings.retire_share)
    measured = measured_balance(home, version, settings.balance_batches)
    sample, cost = _recent(home, settings, version, measured)
    now = load_plan(home, version)
    progress(f"{settings.planner} on {sample.objects} recent objects and {sample.pieces} boxes of subscriptions")
    made = make_plan(settings.planner, sample, now.workers, cost)
    made = relabelled(made, map_workers(shared_pieces(sample, now, made), settings.mapping))
    before, after = worker_loads(sample, now, cost), worker_loads(sample, made, cost)
    gain = 1 - after.max / before.max if before.max else 0.0
    told = f"a new {settings.planner} plan would lower the greatest load by {gain:.1%}"
    if gain <= settings.repartition_gain:
        return Decision(f"{told}; {settings.repartition_gain:.0%} is wanted", measured.imbalance)
    everything = Move(-1, -1, np.arange(made.grid.cells))
    return Decision(told, measured.imbalance, Adjustment(made, [everything], [settings.planner], before, after))


def _undone(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """The plan before the last migration, with the loads of both on the newest objects."""
    target, retiring = taken_back(home, version)
    measured = measured_balance(home, version, settings.balance_batches)
    sample, cost = _recent(home, settings, version, measured)
    now, before = load_plan(home, version), load_plan(home, target)
    loads = [
        loads_of(home, sample, cost, now, retiring_plan(plan_row(home, version))),
        loads_of(home, sample, cost, before, retiring),
    ]
    adjustment = Adjustment(before, [Move(-1, -1, changed_cells(now, before))], ["undo"], *loads)
    return Decision(f"plan {target} again", measured.imbalance, adjustment)


def _retired(
    home: Home, settings: Settings, version: int, method: str, progress: Progress, most: float = 1.0
) -> Decision:
    """The last subscriptions of the older of two active plans go to the newer one, if they are at most the part `most`
    of those that live in the sample.
    """
    retiring = retiring_plan(plan_row(home, version))
    if retiring is None:
        raise UsageError(f"plan {version} retires no older plan", "pststream balance global makes a new one")
    measured = measured_balance(home, version, settings.balance_batches)
    sample, cost = _recent(home, settings, version, measured)
    keys = np.unique(sample.piece_key)
    share = float((keys <= retiring.to).mean()) if len(keys) else 0.0
    told = f"{share:.1%} of the subscriptions are left under plan {retiring.plan_version}"
    if share > most:
        wanted = f"it is retired at {most:.0%}, or at once by: pststream balance retire --apply"
        return Decision(f"{told}; {wanted}", measured.imbalance)
    now = load_plan(home, version)
    cells = changed_cells(load_plan(home, retiring.plan_version), now)
    loads = loads_of(home, sample, cost, now, retiring), worker_loads(sample, now, cost)
    return Decision(told, measured.imbalance, Adjustment(now, [Move(-1, -1, cells)], ["retire"], *loads))


DECIDERS = {"local": _adjusted, "global": _repartitioned, "retire": _retired, "undo": _undone}
"""By kind of adjustment: (home, settings, plan version, method, progress) -> Decision."""
