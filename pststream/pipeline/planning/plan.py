"""Make a new plan version (`pststream plan`): draw a sample, run the planner, build the plan's worker index.

The units, the vocabulary and the index of the new plan are written while the old plan is in force; the row in `plans`
is written last and puts the new plan in force. A killed run leaves rows of a version without a row in `plans`; the next
run deletes them.
"""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from pststream.base import names
from pststream.base.errors import RetryableError
from pststream.base.progress import Progress, no_progress
from pststream.base.texts import counted
from pststream.engine.task_context import make_task_context
from pststream.pipeline.index.build_index import PlanAndFrequencies, rebuild_index
from pststream.pipeline.index.place_pieces import save_counts, save_start
from pststream.pipeline.planning.draw_sample import draw_sample
from pststream.planning.load_model import CostModel, WorkerLoads, compute_worker_loads
from pststream.planning.planners.registry import check_planner, make_plan, place_sample
from pststream.plans.imbalance import finite_imbalance
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.plans.planner_sample import SampleCounts, WorkloadSample, count_sample
from pststream.queries.text.tokenizer import term_id
from pststream.queries.text.words import tokenize
from pststream.settings import Settings, read_planner_options
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.index_files import delete_older_indexes
from pststream.state.plans import (
    current_version,
    save_plan,
    save_units,
    save_vocabulary,
    term_frequencies_of,
    topk_version_of,
)
from pststream.state.slices import Slice, read_slices
from pststream.tables.ledgers import Ledger

MAX_TEXTS, MAX_BYTES = 20_000, 4_000_000
"""Texts of the newest objects that are searched for words, and their bytes, at most."""


def fill_words(home: Home, vocabulary: pa.Table) -> pa.Table:
    """Return the vocabulary with `term` filled for words of the newest texts; it stays null for other terms.

    The words are for people: the tables identify terms by their hashes only.
    """
    words: dict[int, str] = {}
    for text in _newest_texts(home):
        words |= {term_id(word): word for word in tokenize(text)}
    column = [words.get(term) for term in vocabulary.column("term_id").to_pylist()]
    return vocabulary.set_column(vocabulary.schema.get_field_index("term"), "term", pa.array(column, pa.string()))


def _newest_texts(home: Home) -> list[str]:
    files = sorted(list_data_files(home, names.OBJECTS), key=lambda file: file.high.get("object_key", 0))
    texts: list[str] = []
    left = MAX_BYTES
    for path, rows in reversed(addresses_and_rows(home, names.OBJECTS, files)):
        for batch in read_slices([Slice(path, 0, rows)], ["text"]):
            column = batch.column("text").slice(0, MAX_TEXTS - len(texts))
            for text in column.drop_null():
                if (left := left - len(text.as_buffer())) < 0:
                    return texts
                texts.append(text.as_py())
            if len(texts) >= MAX_TEXTS:
                return texts
    return texts


def plan(
    home: Home,
    settings: Settings,
    *,
    dry_run: bool = False,
    versions: tuple[int | None, int | None] = (None, None),
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Make a plan with `settings.planner` for `settings.workers`.

    versions  two versions of the Delta table `objects`: the sample has objects written after the first version and up
              to the second; None: no bound

    Returns {"plan_version", "plan_version_before", "planner", "workers", "units", "load_total", "load_max", "load_min",
    "imbalance" (None if a worker has no load), "sigma" (the imbalance allowed by Definition 2: the option of the
    planner, or the setting), "worker_loads" (seconds), "dry_run", "seconds"}, what `pststream plan --json` prints; of
    the planner `auto` also {"choice": {"planner", "greatest_loads": {planner: seconds}}}.
    """
    home.check()
    with home.locked():
        return new_plan(home, settings, dry_run=dry_run, versions=versions, progress=progress)


def first_plan(home: Home, settings: Settings, *, progress: Progress = no_progress) -> dict[str, Any]:
    """Make the plan of a home that has none, which is locked already, as `plan` does.

    The first batch does not wait for `auto`, which judges by a sample: `names.FIRST_PLANNER` takes its place.
    """
    planner = names.FIRST_PLANNER if settings.planner == names.AUTO else settings.planner
    return new_plan(home, replace(settings, planner=planner), progress=progress)


def new_plan(
    home: Home,
    settings: Settings,
    *,
    dry_run: bool = False,
    versions: tuple[int | None, int | None] = (None, None),
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Make a plan as `plan` does, in a home that is locked already."""
    began = time.perf_counter()
    if Ledger(home).unfinished_batch() is not None:
        raise RetryableError("a batch is unfinished", "run: pststream match, then plan again")
    made = _make_plan(home, settings, versions, progress)
    new = made.plan
    figures = {**made.loads.figures, "seconds": time.perf_counter() - began}
    before = current_version(home)
    version = before + 1
    if not dry_run:
        delete_rows_of_killed_planner(home, version)
        _save_parts(home, version, made)
        crash_point("plan.units_written")
        _build_index(home, settings, PlanAndFrequencies(new, term_frequencies_of(made.vocabulary)), before, progress)
        crash_point("plan.indexed")
        figures |= {"seconds": time.perf_counter() - began}
        placement = None if made.counts is None else version
        row = {**figures, "options": stored_options(settings, made.sample, settings.planner_options)}
        save_plan(home, version, new, row, placement=placement, topk=topk_version_of(home, before))
        crash_point("plan.done")
        delete_older_indexes(home, version)
    choice = {"choice": new.options["choice"]} if "choice" in new.options else {}
    return {
        "plan_version": version, "planner": new.planner, "workers": new.workers, "units": new.units, **figures,
        "imbalance": finite_imbalance(made.loads.imbalance, None), **choice, "plan_version_before": before,
        "sigma": new.options.get("sigma", settings.sigma), "dry_run": dry_run,
        "seconds": round(time.perf_counter() - began, 3),
    }  # fmt: skip


@dataclass(frozen=True)
class _MadePlan:
    """A plan that is not stored yet, and what it was made from.

    sample, vocabulary  as `draw_sample` returns them
    counts              of a plan that shares by subscription: the counts of objects by which later subscriptions are
                        placed; None of other plans
    loads               of the workers and units on the sample
    """

    plan: PartitionPlan
    sample: WorkloadSample
    vocabulary: pa.Table
    counts: SampleCounts | None
    loads: WorkerLoads


def _make_plan(
    home: Home, settings: Settings, versions: tuple[int | None, int | None], progress: Progress
) -> _MadePlan:
    """Draw a sample and run the planner on it."""
    check_planner(settings.planner, progress)
    sample, vocabulary = draw_sample(home, settings, versions, progress=progress)
    boxes = counted(sample.pieces, "subscription box", "subscription boxes")
    progress(f"sample: {counted(sample.objects, 'object')}, {boxes}, {counted(vocabulary.num_rows, 'term')}")
    cost = CostModel.of(settings)
    given = read_planner_options(settings.planner_options)
    new = make_plan(settings.planner, sample, settings.workers, cost, given)
    counts = count_sample(sample, new.grid) if isinstance(new, SubscriptionPlan) else None
    loads = compute_worker_loads(sample if counts is None else place_sample(sample, new, counts), new, cost)
    return _MadePlan(new, sample, vocabulary, counts, loads)


def _save_parts(home: Home, version: int, made: _MadePlan) -> None:
    """Write the units, the vocabulary and the start of placement of a plan; they have no effect without its row."""
    new, loads = made.plan, made.loads
    of_units = {"load": loads.unit_load, "objects": loads.unit_objects, "subscriptions": loads.unit_subscriptions}
    save_units(home, version, new, of_units)
    save_vocabulary(home, version, fill_words(home, made.vocabulary) if len(new.terms) else made.vocabulary)
    if made.counts is not None:
        save_counts(home, version, made.counts)
        requests = list_data_files(home, names.REQUESTS)
        last_request = max((file.high["request_key"] for file in requests), default=-1)
        save_start(home, version, last_request, made.counts.object_scale, new.units)


def stored_options(settings: Settings, sample: WorkloadSample, planner_options: str) -> dict[str, Any]:
    """Return what the column `options` of a plan has beside the options that were in force: the costs, the size of the
    sample, and the options that the planner was given.
    """
    return {
        **{f"cost_{name}": value for name, value in asdict(CostModel.of(settings)).items()},
        "sample_objects": sample.objects,
        "sample_pieces": sample.pieces,
        "planner_options": planner_options,
    }


PLANNED = (
    *(names.PLAN_UNITS, names.PLAN_NODES, names.VOCABULARY, names.MIGRATIONS, names.PLACEMENT_COUNTS),
    *(names.PLACEMENTS, names.PLACEMENT_AREAS, names.TOPK_PLANS),
)
"""Control tables with rows of a plan version that has no row in `plans` yet."""


def delete_rows_of_killed_planner(home: Home, version: int) -> None:
    """Delete what a killed planner of this version has left in the control tables."""
    for name in PLANNED:
        ledger_tables.delete_versions(home, name, "plan_version", version)


def _build_index(home: Home, settings: Settings, new: PlanAndFrequencies, before: int, progress: Progress) -> None:
    """Build the index of the plan for the requests that batches have applied; later requests come with their batch."""
    ledger_tables.delete_versions(home, names.WORKER_INDEX, "index_version", before + 1)
    if before == 0:
        return
    old_context, version = make_task_context(home, settings, before), before + 1
    workers = new.plan.workers
    context = replace(
        old_context, plan_version=version, plans=(version,), index_version=version, workers=workers, index_numbers=()
    )
    rebuild_index(home, old_context, context, new, settings, progress)
