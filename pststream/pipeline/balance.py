"""Load adjustment as commands: look at the measured balance, decide, show, apply; and take back (PS2Stream section V).

An adjustment makes a new plan version that is served from the index of the one before (pipeline/migrate.py). Its rows
in `migrations` and `plan_units` are written first; the row in `plans` switches.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pststream import names
from pststream.balancing.local import Adjustment, adjust_locally
from pststream.balancing.mapping import map_workers, relabelled, shared_pieces
from pststream.domain.moves import Move
from pststream.domain.plan import PartitionPlan
from pststream.domain.workload import WorkloadSample
from pststream.errors import RetryableError, UsageError
from pststream.partitioning.registry import make_plan
from pststream.pipeline.executor import work_of
from pststream.pipeline.migrate import migrate
from pststream.pipeline.proposal import Decision, Proposal, read_proposal, same_plan, write_proposal
from pststream.pipeline.sample import draw_sample
from pststream.reports.adjustment import write_adjustment
from pststream.settings import Settings
from pststream.state import control
from pststream.state.crash import crash_point
from pststream.state.home import Home
from pststream.state.ledger import Ledger
from pststream.state.plans import (
    current_version,
    index_version,
    load_plan,
    load_ranking,
    plan_rows,
    save_plan,
    save_units,
)
from pststream.workload.cost import CostModel, worker_loads

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Balance:
    """Measured CPU seconds of each worker over the last batches of a plan: in each of their two halves.

    first_key: the key after which the objects of the last batches begin, of any plan
    requests: of those batches
    """

    batches: int
    halves: tuple[np.ndarray, np.ndarray]
    first_key: int
    requests: int

    def violated(self, sigma: float) -> bool:
        """Whether the greatest load is over `sigma` times the least in both halves: noise moves nothing."""
        return all(_imbalance(half) > sigma for half in self.halves)

    @property
    def imbalance(self) -> float:
        """Greatest over least, of all the batches."""
        return _imbalance(self.halves[0] + self.halves[1])


def out_of_balance(measured: Balance, settings: Settings) -> bool:
    """Whether load is to be moved: `sigma` is violated, and over enough batches to tell."""
    return measured.batches >= min(2, settings.balance_batches) and measured.violated(settings.sigma)


def _imbalance(seconds: np.ndarray) -> float:
    most = float(seconds.max(initial=0.0))
    return most / max(float(seconds.min()), most * 1e-9) if most > 0.0 else 1.0


def measured_balance(home: Home, version: int, batches: int) -> Balance:
    """From the ledger of loads, over the last `batches` under the plan."""
    recent = [b for b in Ledger(home).batches if b["status"] == "done"][-batches:]
    done = [b for b in recent if b["plan_version"] == version]
    numbers = [b["batch_id"] for b in done]
    workers = load_plan(home, version).workers
    filters = [("batch_id", "in", numbers or [-1]), ("unit", "=", -1)]
    rows = control.read(home, names.UNIT_LOADS, ["batch_id", "worker", "cpu_seconds"], filters)
    batch, worker, seconds = (rows.column(name).to_numpy() for name in rows.column_names)
    late = np.isin(batch, numbers[len(numbers) // 2 :])
    halves = tuple(np.bincount(worker[part], seconds[part], workers) for part in (~late, late))
    if len(numbers) < 2:
        halves = halves[1], halves[1]
    first_key = recent[0]["objects_after"] if recent else -1
    return Balance(len(numbers), (halves[0], halves[1]), first_key, sum(b["requests"] for b in recent))


def balance(
    home: Home,
    settings: Settings,
    kind: str,
    *,
    method: str = "gr",
    dry_run: bool = False,
    proposal: Path | None = None,
    page: Path | None = None,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Adjust the plan: `local` moves cells, `global` makes a new partitioning, `undo` takes the last adjustment back.

    proposal  a dry run writes here what it would do; without a dry run that is done, and nothing is decided anew
    page      HTML on what moves, written if something does

    Returns what CONTRACT says `balance` prints. A dry run returns the same and changes nothing. Without a violated
    balance, or without a move that helps, nothing is changed either: `plan_version_after` is then that before, and
    `reason` says why.
    """
    home.check()
    began = time.perf_counter()
    with home.locked():
        version = current_version(home)
        if version == 0:
            raise UsageError("there is no plan yet", "run: pststream match, which makes the first one")
        if Ledger(home).unfinished_batch() is not None:
            raise RetryableError("a batch was left unfinished", f"run: pststream match, then balance {kind} again")
        if proposal is None or dry_run:
            decision = DECIDERS[kind](home, settings, version, method, progress)
            document = _carry_out(home, settings, version, kind, decision, dry_run)
        else:
            kept = read_proposal(proposal)
            decision = kept.decision
            document = _carry_out_proposal(home, settings, version, kind, kept)
        document |= {"kind": kind, "dry_run": dry_run}
        if proposal is not None and dry_run:
            write_proposal(proposal, Proposal(kind, version, decision))
        if page is not None and decision.adjustment is not None:
            before = load_plan(home, document["plan_version_before"])
            write_adjustment(page, home.path, document, before, decision.adjustment.plan)
    return {**document, "seconds": round(time.perf_counter() - began, 3)}


def _recent(home: Home, settings: Settings, version: int, measured: Balance) -> tuple[WorkloadSample, CostModel]:
    """The objects of the last batches and the live subscriptions, posted as the index posts them; and what they cost.

    Departure from Definition 1, where subscriptions are those inserted in the period: here they are all that are live,
    of which the period inserted but a part, so that part of c3 and c4 is what each costs.
    """
    sample, _ = draw_sample(home, settings, after_key=measured.first_key, ranking=load_ranking(home, version))
    live = max(sample.pieces * sample.subscription_scale, 1.0)
    part = min(measured.requests / live, 1.0)
    cost = CostModel.of(settings)
    return sample, replace(cost, insert=part * cost.insert, delete=part * cost.delete)


def _adjusted(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """Cells to move, if the measured balance is violated. They are moved until half of what `sigma` allows is left, so
    that the next batches do not violate it at once.
    """
    measured = measured_balance(home, version, settings.balance_batches)
    told = f"measured imbalance {measured.imbalance:.3g} over {measured.batches} batches"
    if not out_of_balance(measured, settings):
        return Decision(f"{told}: within {settings.sigma:g}, or not in both halves of them", measured.imbalance)
    progress(f"{told}: looking for cells to move")
    sample, cost = _recent(home, settings, version, measured)
    aim = 1 + (settings.sigma - 1) / 2
    found = adjust_locally(sample, load_plan(home, version), cost, method, aim, seed=version)
    if not found.moves:
        return Decision(f"{told}; no move would lower the greatest load of the sample", measured.imbalance)
    return Decision(told, measured.imbalance, found)


def _repartitioned(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """A new partitioning over as many workers, if it lowers the greatest load of a recent sample enough.

    Its parts go to the workers that hold most of them already, by the Hungarian method, so that few subscriptions move.
    Departure from PS2Stream section V-B, which keeps the old plan for old subscriptions until few of these are left, as
    migrating all of them at once is dear: here only those move that their new worker lacks.
    """
    measured = measured_balance(home, version, settings.balance_batches)
    sample, cost = _recent(home, settings, version, measured)
    now = load_plan(home, version)
    progress(f"{settings.planner} on {sample.objects} recent objects and {sample.pieces} boxes of subscriptions")
    made = make_plan(settings.planner, sample, now.workers, cost)
    made = relabelled(made, map_workers(shared_pieces(sample, now, made), "hungarian"))
    before, after = worker_loads(sample, now, cost), worker_loads(sample, made, cost)
    gain = 1 - after.max / before.max if before.max else 0.0
    told = f"a new {settings.planner} plan would lower the greatest load by {gain:.1%}"
    if gain <= settings.repartition_gain:
        return Decision(f"{told}; {settings.repartition_gain:.0%} is wanted", measured.imbalance)
    everything = Move(-1, -1, np.arange(made.grid.cells))
    return Decision(told, measured.imbalance, Adjustment(made, [everything], [settings.planner], before, after))


def _undone(home: Home, settings: Settings, version: int, method: str, progress: Progress) -> Decision:
    """The plan before the last migration, with the loads of both on the newest objects."""
    rows = control.read(home, names.MIGRATIONS, filters=[("plan_version", "=", version)]).to_pylist()
    if not rows:
        raise UsageError(
            f"plan {version} was not made by a migration", "pststream plans list names those that there are"
        )
    if rows[0]["kind"] == "undo":
        raise UsageError(f"plan {version} has taken a migration back already", "run: pststream balance local")
    measured = measured_balance(home, version, settings.balance_batches)
    sample, cost = _recent(home, settings, version, measured)
    now, before = load_plan(home, version), load_plan(home, rows[0]["plan_version_before"])
    same = now.grid == before.grid
    changed = np.flatnonzero(_serving(now) != _serving(before)) if same else np.arange(before.grid.cells)
    loads = [worker_loads(sample, plan, cost) for plan in (now, before)]
    adjustment = Adjustment(before, [Move(-1, -1, changed)], ["undo"], *loads)
    return Decision(f"plan {rows[0]['plan_version_before']} again", measured.imbalance, adjustment)


DECIDERS = {"local": _adjusted, "global": _repartitioned, "undo": _undone}


def _serving(plan: PartitionPlan) -> np.ndarray:
    """The worker that serves each cell whole, or a number for its leaf: cells that differ in it have moved."""
    unit = plan.leaf_unit[plan.cell_leaf]
    return np.where(unit >= 0, plan.unit_worker[np.maximum(unit, 0)], plan.workers + plan.cell_leaf)


def _carry_out(
    home: Home, settings: Settings, version: int, kind: str, decision: Decision, dry_run: bool
) -> dict[str, Any]:
    found = decision.adjustment
    if found is None:
        return _told(version, decision, 0, 0)
    work = work_of(home, settings, version)
    named = {move.origin for move in found.moves}
    origins = set(range(work.workers)) if -1 in named else named
    rows, size = migrate(home, settings, work, found.plan, origins, dry_run)
    crash_point("balance.indexed")
    told = _told(version, decision, rows, size)
    if not dry_run:
        _save(home, version, kind, found, told)
    return told


def _carry_out_proposal(home: Home, settings: Settings, version: int, kind: str, proposal: Proposal) -> dict[str, Any]:
    """Do what was proposed; if it has been done already and nothing since, say so again."""
    if proposal.kind != kind:
        raise UsageError(f"the proposal is of kind {proposal.kind}", f"run: pststream balance {proposal.kind}")
    before, found = proposal.plan_version, proposal.decision.adjustment
    if before == version:
        return _carry_out(home, settings, version, kind, proposal.decision, dry_run=False)
    rows = control.read(home, names.MIGRATIONS, filters=[("plan_version", "=", version)]).to_pylist()
    if found and rows and before == version - 1 and same_plan(load_plan(home, version), found.plan):
        return _told(before, proposal.decision, rows[0]["subscriptions"], rows[0]["bytes"])
    raise UsageError(
        f"the proposal changes plan {before}, and plan {version} is in force",
        f"make it anew: pststream balance {kind} --dry-run --proposal FILE",
    )


def _told(version: int, decision: Decision, rows: int, size: int) -> dict[str, Any]:
    """What a command says of a decision, and of the rows that move, about `size` bytes."""
    told: dict[str, Any] = {
        "plan_version_before": version,
        "plan_version_after": version,
        "reason": decision.reason,
        "measured_imbalance": round(decision.imbalance, 4),
        "moved_subscriptions": rows,
        "moved_bytes": size,
        "load_before": [],
        "load_after": [],
        "moves": [],
    }
    found = decision.adjustment
    if found is None:
        return told
    return told | {
        "plan_version_after": version + 1,
        "load_before": found.before.load.tolist(),
        "load_after": found.after.load.tolist(),
        "expected_gain": round(1 - found.after.max / found.before.max, 4) if found.before.max else 0.0,
        "moves": [
            {"origin": m.origin, "target": m.target, "cells": len(m.cells), "reason": reason,
             "terms": None if m.terms is None else len(m.terms)}
            for m, reason in zip(found.moves, found.reasons)
        ],
    }  # fmt: skip


def _save(home: Home, version: int, kind: str, found: Adjustment, told: dict[str, Any]) -> None:
    """Units and migration of the new plan, then its row: from there on it is in force."""
    new, loads = version + 1, found.after
    for name in (names.PLAN_UNITS, names.MIGRATIONS):
        control.delete(home, name, f"plan_version >= {new}")
    columns = {"load": loads.unit_load, "objects": loads.unit_objects, "subscriptions": loads.unit_subscriptions}
    save_units(home, new, found.plan, columns)
    control.append(home, names.MIGRATIONS, _rows(version, kind, found, told))
    crash_point("balance.units_written")
    row = next(row for row in plan_rows(home) if row["plan_version"] == version)
    figures = {**loads.figures, "options": json.loads(row["options"]), "seconds": 0.0}
    save_plan(home, new, found.plan, figures, index_version(home, version))
    crash_point("balance.done")


def _rows(version: int, kind: str, found: Adjustment, told: dict[str, Any]) -> list[dict[str, Any]]:
    shared = {
        "plan_version": version + 1, "plan_version_before": version, "kind": kind, "at": control.now(),
        "subscriptions": told["moved_subscriptions"], "bytes": told["moved_bytes"],
        "expected_gain": told["expected_gain"], "load_before": told["load_before"], "load_after": told["load_after"],
    }  # fmt: skip
    return [
        {**shared, "move": number, "reason": reason, "origin": move.origin, "target": move.target,
         "cells": move.cells.tolist(), "terms": None if move.terms is None else move.terms.tolist()}
        for number, (move, reason) in enumerate(zip(found.moves, found.reasons))
    ]  # fmt: skip
