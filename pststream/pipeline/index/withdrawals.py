"""Withdraw objects, whether a user asks for it or a batch sets one aside; no ingest and no batch is unfinished then.

`maintain` drops a subscription that ended before the time of every object that can still be accepted. A withdrawal
lowers the watermark, so that earlier objects can be accepted, and such subscriptions are added to the worker index
again. The added pieces change nothing for the objects that were to come before, so this runs before the withdrawal, and
may be killed and run again: subscriptions that are in the index are left as they are. Their pieces may be posted under
another clause than the requests alone would give now, and so be at other workers. Under a plan that shares by
subscription, the unit in which they were placed is no longer known. They then belong to the unit that their key hashes
to (`plans/pieces.py`).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.base.arrow_columns import micros
from pststream.base.progress import Progress
from pststream.base.utc_times import to_micros
from pststream.engine.contract import SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext, dispatch_index, make_task_context, term_frequencies
from pststream.matching.segments import Deletions, build_deletions, merge_deletions
from pststream.pipeline.index.build_index import (
    apply_deletions,
    ends_of,
    make_pieces,
    rank_clauses,
    read_requests,
    rows_by_worker,
    rows_of_task,
    select_deletions,
    split_by_bytes,
    workers_by_row,
)
from pststream.pipeline.index.stored_pieces import write_missing
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.data_files import addresses_and_rows, commit_files, list_data_files
from pststream.state.erasures import login_name
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.ledger_tables import append_withdrawal
from pststream.state.plans import Retiring, current_version, numbers_in_index, read_plan_row, retiring_plan
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks
from pststream.tables.delta_tables import last_transaction
from pststream.tables.ledgers import Ledger
from pststream.tables.log_events import SET_ASIDE, WithdrawnRows, withdrawn_requests


def record_withdrawal(
    home: Home, settings: Settings, keys: np.ndarray, watermark: int | None, progress: Progress, set_aside: bool = False
) -> int:
    """Withdraw objects (keys int64[n], ascending); return the number of the withdrawal.

    watermark: of the objects that are left (`greatest_ts_of_others`)
    set_aside: whether their batch fails; the caller then writes the rejects
    """
    ledger = Ledger(home)
    _restore_subscriptions(home, settings, ledger, watermark, progress)
    options = {SET_ASIDE: int(keys[0])} if set_aside else {"requested_by": login_name()}
    return append_withdrawal(home, ledger, keys, watermark, options, int(set_aside))


def greatest_ts_of_others(home: Home, selected: np.ndarray, withdrawn: WithdrawnRows) -> int | None:
    """Return the greatest ts (microseconds) of the objects that are neither in `selected` (keys int64[n], ascending)
    nor withdrawn; None if there are none. Reads the files with the latest objects only.
    """
    greatest: int | None = None
    files = sorted(list_data_files(home, names.OBJECTS), key=lambda file: file.high.get("ts", names.NEVER_US))
    for file in reversed(files):
        if greatest is not None and file.high.get("ts", names.NEVER_US) < greatest:
            break
        slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.OBJECTS, [file])]
        for rows in read_slices(slices, ["object_key", "ts"]):
            keys = rows.column("object_key").to_numpy()
            times = micros(rows.column("ts"))[~(is_among(keys, selected) | withdrawn.contain(keys))]
            if len(times):
                greatest = int(times.max()) if greatest is None else max(greatest, int(times.max()))
    return greatest


def _restore_subscriptions(
    home: Home, settings: Settings, ledger: Ledger, watermark: int | None, progress: Progress
) -> None:
    """Index subscriptions again that ended before every object to come, and no longer do."""
    before = ledger.watermark()
    if before is None or (watermark is not None and watermark >= to_micros(before)):
        return
    since = names.NO_TIME if watermark is None else watermark - settings.lateness_seconds * 1_000_000
    restored = restore_ended(home, settings, since, to_micros(before))
    crash_point("withdraw.restored")
    if restored:
        progress(f"{restored:,} pieces of ended subscriptions are in the index again")


APPLICATION = "restore"
"""Application of the transaction ids of these commits."""


def restore_ended(home: Home, settings: Settings, after: int, up_to: int) -> int:
    """Add the pieces of the subscriptions that end after `after` and up to `up_to` (microseconds) and are missing.

    Returns the number of pieces added. No batch may be unfinished. The driver keeps 16 bytes for each deletion of the
    request log, and 8 for each of these subscriptions that is not missing.
    """
    version = current_version(home)
    if not version or last_transaction(home.table(names.WORKER_INDEX), "upkeep") < 0:
        return 0  # nothing was dropped
    context = make_task_context(home, settings, version)
    applied = Ledger(home).requests_applied
    retiring = retiring_plan(read_plan_row(home, version)) or Retiring(version, -1)
    parts = ((retiring.plan_version, -1, retiring.to), (version, retiring.to, applied))
    deletions, files = _read_deletions(home, applied), index_files(home, version)
    tasks = split_into_tasks((file.path, file.rows) for file in files if file.worker != names.EVERY_WORKER)
    find = partial(_indexed_keys, deletions, (after, up_to))
    indexed = get_engine(settings, home).run_tasks(tasks, find) if tasks else []
    present = distinct_values(np.concatenate([np.empty(0, np.int64), *indexed]))
    added = []
    for plan_version, first, last in parts:
        requests = KeyRange("request_key", first, last)
        logged = requests.files(list_data_files(home, names.REQUESTS))
        tasks = split_into_tasks(addresses_and_rows(home, names.REQUESTS, logged), rows_of_task(logged))
        kept = (requests, withdrawn_requests(home))
        send = partial(_send_ended, context, plan_version, kept, deletions, (after, up_to), present)
        writing = replace(context, index_numbers=numbers_in_index(home, plan_version))
        write = partial(write_missing, home.table(names.WORKER_INDEX), writing, files, False, retiring.to)
        written = get_engine(settings, home).run_shuffled(tasks, send, [Stage(context.workers, write)]) if tasks else []
        added += [file for part in written for file in part.files]
    last_commit = last_transaction(home.table(names.WORKER_INDEX), APPLICATION)
    if added:
        commit_files(home, names.WORKER_INDEX, added, application=APPLICATION, transaction=last_commit + 1)
    return sum(file.rows for file in added)


def _read_deletions(home: Home, applied: int) -> Deletions:
    """Read the deletions of the request log up to a key."""
    requests = KeyRange("request_key", -1, applied)
    files = requests.files(list_data_files(home, names.REQUESTS))
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.REQUESTS, files)]
    columns = ["request_key", "op", "subscription_key", "replaced_key", "effective_at"]
    rows = [select_deletions(batch, 0) for batch in read_slices(slices, columns, requests)]
    return merge_deletions([build_deletions(pa.Table.from_batches(rows))] if rows else [])


def _send_ended(
    context: TaskContext,
    plan_version: int,
    requests: tuple[KeyRange, WithdrawnRows],
    deletions: Deletions,
    ends: tuple[int, int],
    present: np.ndarray,
    slices: tuple[Slice, ...],
) -> Iterator[SentRows]:
    """Send the pieces of the subscriptions that end in the range to each worker that serves them under the plan.

    requests: key range, without those that were set aside
    present: keys of subscriptions in the index (int64, ascending), which are not sent
    """
    dispatch = dispatch_index(context.home, plan_version)
    frequencies = term_frequencies(context.home, plan_version)
    for rows in read_requests(slices, *requests):
        expires = rows.column("expires_at").cast(pa.int64()).fill_null(names.NEVER_US)
        is_deleted = np.isin(rows.column("subscription_key").to_numpy(), deletions[0])
        ends_now = pc.or_(pa.array(is_deleted), pc.less_equal(expires, ends[1]))
        for part in split_by_bytes(rows.filter(pc.and_(pc.equal(rows.column("op"), "insert"), ends_now))):
            pieces = apply_deletions(make_pieces(part), deletions)
            is_missing = ~is_among(pieces.column("subscription_key").to_numpy(), present)
            ended = pieces.filter(pa.array(_is_within(pieces.column("end_at").to_numpy(), ends) & is_missing))
            ranked = rank_clauses(ended, frequencies.frequency)
            yield from rows_by_worker(ranked, *workers_by_row(ranked, dispatch), context)


def _indexed_keys(deletions: Deletions, ends: tuple[int, int], slices: tuple[Slice, ...]) -> np.ndarray:
    """Return the keys of the subscriptions in slices of the index that end in the range: int64, ascending."""
    keys = [np.empty(0, np.int64)]
    for rows in read_slices(slices, ["subscription_key", "end_at"]):
        within = _is_within(ends_of(rows, deletions), ends)
        keys.append(distinct_values(rows.column("subscription_key").to_numpy()[within]))
    return distinct_values(np.concatenate(keys))


def _is_within(until: np.ndarray, ends: tuple[int, int]) -> np.ndarray:
    """Return which ends are in the range: bool[n]."""
    return (until > ends[0]) & (until <= ends[1])
