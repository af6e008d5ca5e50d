"""Planning: a new plan version from the stored sample, and the worker index that belongs to it.

The units, the vocabulary and the index of the new plan are written while the old plan serves; the row in `plans` comes
last and switches. A plan killed halfway leaves rows of a version that no row of `plans` names; the next try removes
them.
"""

import time
from dataclasses import asdict, replace
from typing import Any

from pststream import names
from pststream.cost.load_model import CostModel, worker_loads
from pststream.errors import RetryableError
from pststream.partitioning.registry import make_plan
from pststream.pipeline.engine.task_context import make_task_context
from pststream.pipeline.index.build_index import Assignment, rebuild
from pststream.pipeline.planning.draw_sample import draw_sample
from pststream.pipeline.planning.plan_vocabulary import with_words
from pststream.progress import Progress, no_progress
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.state.index_files import forget_older
from pststream.state.ledger import Ledger
from pststream.state.plans import current_version, ranking_of, save_plan, save_units, save_vocabulary


def plan(
    home: Home,
    settings: Settings,
    *,
    dry_run: bool = False,
    versions: tuple[int | None, int | None] = (None, None),
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Make a plan with `settings.planner` for `settings.workers`.

    versions: of the Delta table `objects`; the sample is of what came after the first and up to the second.
    Returns {"plan_version", "plan_version_before", "planner", "workers", "units", "load_total", "load_max", "load_min",
    "imbalance", "worker_loads" (seconds), "dry_run", "seconds"}, what `pststream plan --json` prints.
    """
    home.check()
    with home.locked():
        return new_plan(home, settings, dry_run=dry_run, versions=versions, progress=progress)


def new_plan(
    home: Home,
    settings: Settings,
    *,
    dry_run: bool = False,
    versions: tuple[int | None, int | None] = (None, None),
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """As `plan`, in a home that is locked."""
    began = time.perf_counter()
    if Ledger(home).unfinished_batch() is not None:
        raise RetryableError("a batch was left unfinished", "run: pststream match, then plan again")
    sample, vocabulary = draw_sample(home, settings, versions)
    progress(f"sample: {sample.objects} objects, {sample.pieces} boxes of subscriptions, {vocabulary.num_rows} terms")
    cost = CostModel.of(settings)
    made = make_plan(settings.planner, sample, settings.workers, cost)
    loads = worker_loads(sample, made, cost)
    figures = {**loads.figures, "seconds": time.perf_counter() - began}
    before = current_version(home)
    version = before + 1
    if not dry_run:
        _clean(home, version)
        save_units(
            home,
            version,
            made,
            {"load": loads.unit_load, "objects": loads.unit_objects, "subscriptions": loads.unit_subscriptions},
        )
        save_vocabulary(home, version, with_words(home, vocabulary) if len(made.terms) else vocabulary)
        crash_point("plan.units_written")
        _build_index(home, settings, Assignment(made, ranking_of(vocabulary)), before)
        crash_point("plan.indexed")
        options = {
            **{f"cost_{name}": value for name, value in asdict(cost).items()},
            "sample_objects": sample.objects,
            "sample_pieces": sample.pieces,
        }
        save_plan(home, version, made, {**figures, "seconds": time.perf_counter() - began, "options": options})
        crash_point("plan.done")
        forget_older(home, version)
    return {
        "plan_version": version, "planner": made.planner, "workers": made.workers, "units": made.units, **figures,
        "plan_version_before": before, "dry_run": dry_run, "seconds": round(time.perf_counter() - began, 3),
    }  # fmt: skip


def _clean(home: Home, version: int) -> None:
    """Remove what a killed plan of this version left in the control tables."""
    for name in (names.PLAN_UNITS, names.VOCABULARY, names.MIGRATIONS):
        ledger_tables.delete(home, name, f"plan_version >= {version}")


def _build_index(home: Home, settings: Settings, new: Assignment, before: int) -> None:
    """Write the index of the plan for the requests that batches have applied; later ones come with their batch."""
    ledger_tables.delete(home, names.WORKER_INDEX, f"index_version > {before}")
    if before == 0:
        return
    old, version = make_task_context(home, settings, before), before + 1
    work = replace(old, plan_version=version, plans=(version,), index_version=version, workers=new.plan.workers)
    rebuild(home, old, work, new, settings)
