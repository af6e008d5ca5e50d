"""Read what committed batches change in the indexes of units: logged thresholds, and subscriptions that ended.

Each unit of the plan of `topk` needs only the changes of subscriptions that it may hold. The first unit of a process
that needs the changes of some batches reads the log for all units, and keeps them by unit in a file of the node. So a
batch costs one pass over its rows, whatever the number of units.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.topk_units import UnitShare
from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.base.utc_times import to_micros
from pststream.pipeline.answers.answer_context import AnswerContext
from pststream.pipeline.answers.log_rows import ENTRY, list_state_files, slices_of
from pststream.pipeline.answers.scored_candidates import as_subscriptions
from pststream.plans.topk_plan import TopkPlan
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.storage.array_cache import TornFileError, map_arrays, write_arrays
from pststream.tables.ledgers import read_batches

COLUMNS = ["batch_id", "event", "subscription_key", "value"]

_Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Batch, subscription and threshold: int64[n], int64[n], float32[n]."""


def read_thresholds(home: Home, after: int, up_to: int, snapshot: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the last thresholds that the batches after < batch_id <= up_to have logged: keys int64[n], ascending, and
    values float32[n], the greatest that a buffer keeps.

    snapshot: also those in the snapshot of answers after the batch `after`, of subscriptions without a later one
    """
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    if snapshot and after:
        parts += _of_snapshot(home, after)
    slices = slices_of(home, list_state_files(home, after, up_to))
    for rows in read_slices(slices, COLUMNS, KeyRange("batch_id", after, up_to)):
        parts.append(_arrays(rows.filter(pc.not_equal(rows.column("event"), ENTRY)), "value"))
    batch, key, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((batch, key))
    last = order[np.append(np.diff(key[order]) != 0, True)[: len(order)]]
    return key[last], value[last]


def _of_snapshot(home: Home, batch_id: int) -> Iterator[_Rows]:
    of_batch = KeyRange("batch_id", batch_id - 1, batch_id)
    files = of_batch.files(list_data_files(home, names.ANSWERS))
    slices = [whole_file(path) for path, _ in addresses_and_rows(home, names.ANSWERS, files)]
    for rows in read_slices(slices, ["batch_id", "subscription_key", "threshold"], of_batch):
        batch, key, value = _arrays(rows, "threshold")
        first = np.flatnonzero(np.diff(key, prepend=-1))  # a subscription has a row for each entry of its buffer
        yield batch[first], key[first], value[first]


def _arrays(rows: pa.RecordBatch, value: str) -> _Rows:
    batch, key, values = (rows.column(name).to_numpy() for name in ("batch_id", "subscription_key", value))
    return batch, key, values


COUNTED = 500_000
"""Subscriptions whose units are found at a time."""

FOLDER = "changes"

_reading = threading.Lock()


class Changes(NamedTuple):
    """What changes for one unit, n rows.

    keys        int64[n]    subscriptions, each once among those that live and once among those that ended
    thresholds  float32[n]  greatest value that enters; -infinity: the subscription has ended
    """

    keys: np.ndarray
    thresholds: np.ndarray


def read_changes(context: AnswerContext, share: UnitShare, since: int, is_whole: bool) -> Changes:
    """Return what the batches after `since`, up to the batch before, change for a unit.

    is_whole: `since` is the last snapshot of answers, 0 without one; also its subscriptions are among the changes
    """
    last = context.previous
    ending = f"-{last.batch_id}-{last.started_at}"
    path = context.units_folder() / FOLDER / f"{'whole' if is_whole else 'after'}-{since}{ending}"
    with _reading:  # the threads of a process read the log once
        try:
            arrays = map_arrays(path)
        except (FileNotFoundError, TornFileError):
            arrays = _by_unit(context, share.plan, since, is_whole)
            with suppress(FileNotFoundError):  # another process has deleted the file while it was being written
                write_arrays(path, arrays)
                for file in path.parent.iterdir():  # changes up to other batches
                    if not file.name.endswith(ending):
                        file.unlink(missing_ok=True)
    mine = slice(*arrays["offsets"][share.unit : share.unit + 2])
    return Changes(arrays["keys"][mine], arrays["thresholds"][mine])


def _by_unit(context: AnswerContext, plan: TopkPlan, since: int, is_whole: bool) -> dict[str, np.ndarray]:
    """Return the changes of all units: offsets int64[units+1], and keys and thresholds in the order of units."""
    keys, thresholds = read_thresholds(Home(context.home), since, context.previous.batch_id, snapshot=is_whole)
    ended = ended_since(context, 0 if is_whole else since)
    if is_whole:  # the units have no index yet
        lives = ~is_among(keys, ended)
        keys, thresholds, ended = keys[lives], thresholds[lives], ended[:0]
    parts = [
        _pairs(context, plan, keys, thresholds),
        _pairs(context, plan, ended, np.full(len(ended), -np.inf, np.float32)),
    ]
    unit, keys, thresholds = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(unit, kind="stable")
    offsets = np.searchsorted(unit[order], np.arange(plan.units + 1))
    return {"offsets": offsets, "keys": keys[order], "thresholds": thresholds[order]}


def _pairs(context: AnswerContext, plan: TopkPlan, keys: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return a row for each unit that may hold one of some subscriptions (ascending): unit, key, threshold."""
    queries = context.queries()
    is_scored = queries.are_scored(keys)
    keys, thresholds = keys[is_scored], thresholds[is_scored]
    rows = [(np.empty(0, np.int64), keys[:0], thresholds[:0])]
    for first in range(0, len(keys), COUNTED):
        some = slice(first, first + COUNTED)
        is_known, chosen = queries.select(keys[some])
        subscriptions = as_subscriptions(chosen, thresholds[some][is_known], context.segments.weights)
        position, unit = plan.find_units(
            subscriptions.key, subscriptions.lon, subscriptions.lat, subscriptions.offsets, subscriptions.terms
        )
        rows.append((unit, subscriptions.key[position], subscriptions.threshold[position]))
    return tuple(np.concatenate(columns) for columns in zip(*rows, strict=True))


def ended_since(context: AnswerContext, since: int) -> np.ndarray:
    """Return the keys of subscriptions that have ended after the batch `since`, up to the batch before: int64[n],
    ascending.

    since 0: all that have ended
    """
    last, requests, stream_time = context.previous, -1, names.NO_TIME
    if since:
        batch = read_batches(Home(context.home), since - 1, since)[0]
        requests = batch["requests_to"]
        stream_time = names.NO_TIME if batch["stream_time"] is None else to_micros(batch["stream_time"])
    return distinct_values(context.queries().ended((requests, last.requests_to), (stream_time, last.stream_time)))
