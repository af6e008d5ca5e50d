"""Make the scratch home of a replay: the logs as they were, the plan to try, and the index of the earlier requests.

Data files of the home that belong to the logs as they were are named by their addresses; only files that also have
other rows are copied in part. So a scratch home of a large home is small, and a home in a bucket is read in place.
"""

from functools import partial
from typing import Any, NamedTuple

import pyarrow.dataset as pds

from pststream import names
from pststream.delta_tables import last_transaction, read_table
from pststream.ledgers.log_end import Ledger, read_latest
from pststream.pipeline.adjusting.plan_topk import plan_topk
from pststream.pipeline.batch.micro_batch import run_batch
from pststream.pipeline.comparing.discarded_match import match_and_discard
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import make_task_context
from pststream.pipeline.index.build_index import index_requests
from pststream.pipeline.index.compact_index import compact_index
from pststream.pipeline.planning.plan import new_plan
from pststream.pipeline.replay.chosen_batches import ChosenBatches
from pststream.pipeline.replay.tried_plan import TriedPlan, save_tried_plan, stored_plan
from pststream.progress import Progress, StepCounter
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.data_files import (
    DataFile,
    FileWriter,
    add_references,
    addresses_and_rows,
    commit_files,
    list_data_files,
)
from pststream.state.home import Home
from pststream.state.plans import current_version
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES

BEFORE_ALL = -1


class TopkPlanner(NamedTuple):
    """A planner of `topk`, and its options as `plan --option` takes them; None: its defaults."""

    name: str
    options: str | None


def make_scratch_home(
    home: Home, scratch: Home, settings: Settings, chosen: ChosenBatches, plan: TriedPlan | None, progress: Progress
) -> None:
    """Make the scratch home as the home was when the first batch started, with the plan to try in force.

    plan: None: `settings.planner` makes one from what was stored then, as `pststream plan` would have done

    The index has the subscriptions that were live: those that ended before any object still to be matched are dropped.
    """
    scratch.init(home.answer_buckets)
    first, before = chosen.first, chosen.before
    _add_rows(home, scratch, settings, names.OBJECTS, KeyRange("object_key", BEFORE_ALL, first["objects_to"]))
    _add_rows(home, scratch, settings, names.REQUESTS, KeyRange("request_key", BEFORE_ALL, first["requests_to"]))
    _add_rows(home, scratch, settings, names.MATCHES, KeyRange("batch_id", BEFORE_ALL, first["batch_id"] - 1))
    _add_ledger_rows(home, scratch, chosen)
    indexed = before is not None and before["requests_to"] > 0
    if plan is not None or indexed:
        save_tried_plan(home, scratch, plan or stored_plan(home, first["plan_version"]))
    if before is not None and indexed:
        version = current_version(scratch)
        progress(f"indexing the requests before batch {first['batch_id']}")
        context = make_task_context(scratch, settings, version, before["batch_id"])
        index_requests(scratch, context, BEFORE_ALL, before["requests_to"], settings, progress)
        compact_index(scratch, settings, version)
    if plan is None:
        new_plan(scratch, settings, progress=progress)


def run_batches(
    home: Home,
    scratch: Home,
    settings: Settings,
    chosen: ChosenBatches,
    topk: TopkPlanner | None,
    progress: Progress,
) -> None:
    """Run the batches in the scratch home, with their numbers and key ranges, under its plan.

    topk: makes the plan of `topk` under which all but the first batch run; None: by bucket. The first batch
    evaluates all answers, so then their thresholds are known; later objects are not stored yet.
    """
    first, last = chosen.first, chosen.last
    match_and_discard(scratch, settings, current_version(scratch), slice(1))  # this builds the segments of the index
    counter = StepCounter(progress, "replaying", "batch", len(chosen.batches))
    for batch in chosen.batches:
        progress(f"batch {batch['batch_id']} of {first['batch_id']} to {last['batch_id']}")
        counter.add(0)
        ledger = Ledger(scratch)
        started = _started(batch, current_version(scratch))
        ledger_tables.append(scratch, names.BATCHES, [started])
        run_batch(scratch, settings, started, ledger, progress)
        counter.add(1)
        if batch is first:
            if topk is not None:
                plan_topk(scratch, settings, topk.name, options=topk.options, progress=progress)
            _add_later_rows(home, scratch, settings, chosen)


def _add_later_rows(home: Home, scratch: Home, settings: Settings, chosen: ChosenBatches) -> None:
    """Add the objects and requests of the batches after the first."""
    first, last = chosen.first, chosen.last
    for name, key in ((names.OBJECTS, "object_key"), (names.REQUESTS, "request_key")):
        _add_rows(home, scratch, settings, name, KeyRange(key, first[f"{name}_to"], last[f"{name}_to"]))


def _started(batch: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the row of `batches` with which a batch starts under another plan."""
    kept = ("batch_id", "started_at", "objects_version", "requests_version")
    ranges = ("objects_after", "objects_to", "requests_after", "requests_to")
    return {**{name: batch[name] for name in (*kept, *ranges)}, "status": "started", "plan_version": version}


def _add_ledger_rows(home: Home, scratch: Home, chosen: ChosenBatches) -> None:
    """Copy the row of the batch before, those of the files that `Ledger` reads from it to the last batch, and those of
    all withdrawals and term statistics up to there with what they name.
    """
    before, last = chosen.before, chosen.last
    first_key = before["objects_after"] if before else 0
    seq, last_key = pds.field("file_seq"), max(last["objects_to"], last["requests_to"])
    needed = (seq >= first_key >> names.ROW_BITS) | pds.field("withdrawal_id").is_valid()
    needed |= pds.field("statistics_version").is_valid()
    within = needed & (seq <= last_key >> names.ROW_BITS)
    files = read_latest(home, names.FILES, "file_seq", filter=within & (pds.field("status") == "done"))
    ledger_tables.append(scratch, names.FILES, files)
    ledger_tables.append(scratch, names.WITHDRAWALS, read_table(home.table(names.WITHDRAWALS)))
    add_references(scratch, names.TERM_STATISTICS, home, list_data_files(home, names.TERM_STATISTICS))
    if before is not None:
        ledger_tables.append(scratch, names.BATCHES, [before])


def _add_rows(home: Home, scratch: Home, settings: Settings, name: str, rows: KeyRange) -> None:
    """Add the rows of a key range of a table: files with no other rows by their addresses, the rest as copies."""
    files = rows.files(list_data_files(home, name))
    whole = [file for file in files if _is_within(file, rows)]
    add_references(scratch, name, home, whole)
    cut = addresses_and_rows(home, name, (file for file in files if not _is_within(file, rows)))
    slices = [Slice(path, 0, count) for path, count in cut]
    copied = get_engine(settings).run_tasks(slices, partial(_copy_rows, scratch.table(name), name, rows))
    last = last_transaction(scratch.table(name), "replay")
    commit_files(scratch, name, filter(None, copied), application="replay", transaction=last + 1)


def _is_within(file: DataFile, rows: KeyRange) -> bool:
    least, greatest = file.low.get(rows.column), file.high.get(rows.column)
    return least is not None and greatest is not None and least > rows.after and greatest <= rows.up_to


def _copy_rows(root: str, name: str, rows: KeyRange, file: Slice) -> DataFile | None:
    writer = FileWriter(root, TABLES[name].schema)
    for part in read_slices([file], writer.schema.names, rows):
        writer.write(part)
    return writer.close()
