"""Read what committed batches change in the indexes of units: logged thresholds, and subscriptions that ended.

Each unit of the plan of `topk` needs only the changes of subscriptions that it may hold. The first unit of a process
that needs the changes of some batches reads the log for all units, and keeps them by unit in a file of the node. So a
batch costs one pass over its rows, whatever the number of units.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.answers.scored_index import Messages, ScoredSubscriptions
from pststream.answers.topk_units import UnitShare, as_sample
from pststream.base import names
from pststream.base.arrays import distinct_values, hash_to_unit, is_among
from pststream.base.arrow_columns import csr, one_array
from pststream.base.errors import UsageError
from pststream.base.progress import Progress
from pststream.base.texts import counted
from pststream.base.utc_times import to_micros
from pststream.engine.running_engine import get_engine
from pststream.pipeline.answers.answer_context import AnswerContext, context_after
from pststream.pipeline.answers.log_rows import ENTRY, list_state_files, slices_of
from pststream.pipeline.answers.scored_candidates import as_subscriptions
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.pipeline.planning.draw_sample import SEED, draw_objects
from pststream.planning.papers.topk_sample import TopkSample
from pststream.plans.topk_plan import TopkPlan
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.storage.array_cache import TornFileError, map_arrays, write_arrays
from pststream.tables.ledgers import Ledger, read_batches

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


# Draw the sample of the planners of `topk`: live subscriptions with their logged thresholds, and stored objects.

NO_ANSWER = (
    "no topk subscription has an answer yet",
    f"run: pststream match, then plan again; the plan of regions is made with --kinds {names.REGION_KINDS}",
)


class DrawnTopk(NamedTuple):
    """Sampled subscriptions, stored objects as messages, and the live subscriptions for each sampled one."""

    subscriptions: ScoredSubscriptions
    messages: Messages
    scale: float

    @property
    def sample(self) -> TopkSample:
        """The sample of planners; messages have the words that a sampled subscription has, by which they are sent."""
        sent, is_word = self.messages, np.isin(self.messages.terms, self.subscriptions.terms)
        offsets = np.append(0, np.cumsum(is_word))[sent.offsets]
        routed = sent._replace(offsets=offsets, terms=sent.terms[is_word], weights=sent.weights[is_word])
        return as_sample(self.subscriptions, routed, self.scale)


def draw_topk_sample(home: Home, settings: Settings, progress: Progress) -> DrawnTopk:
    """Return a sample of the `topk` subscriptions and the objects of a home, which is locked.

    Raises UsageError if no such subscription has an answer yet.
    """
    last = Ledger(home).last_batch
    if last is None or not has_standing_queries(home, last["requests_to"]):
        raise UsageError(*NO_ANSWER)
    context = context_after(home, settings, last)
    drawn: list[tuple[ScoredSubscriptions, float]] = get_engine(settings).run_tasks(
        [settings.sample_subscriptions], partial(_draw, context)
    )
    subscriptions, scale = drawn[0]
    if not len(subscriptions.key):
        raise UsageError(*NO_ANSWER)
    rows, _, _ = draw_objects(home, settings, (None, None), -1, progress)
    keys, lon, lat = (one_array(rows.column(name)).to_numpy() for name in ("object_key", "lon", "lat"))
    offsets, terms = csr(one_array(rows.column("terms")))
    messages = Messages(keys, keys, lon, lat, offsets, terms, context.segments.weights.of_terms(terms))
    progress(f"sample: {counted(len(subscriptions.key), 'subscription')}, {counted(len(keys), 'object')}")
    return DrawnTopk(subscriptions, messages, scale)


def _draw(context: AnswerContext, most: int) -> tuple[ScoredSubscriptions, float]:
    """Choose at most about `most` live subscriptions by a hash of their keys; return also the live ones for each."""
    queries, last = context.queries(), context.previous
    keys, thresholds = read_thresholds(Home(context.home), context.last_snapshot, last.batch_id, snapshot=True)
    is_live = queries.are_scored(keys) & ~is_among(keys, ended_since(context, 0))
    keys, thresholds = keys[is_live], thresholds[is_live]
    is_chosen = hash_to_unit(keys, SEED) < most / max(len(keys), 1)
    _, chosen = queries.select(keys[is_chosen])
    some = as_subscriptions(chosen, thresholds[is_chosen], context.segments.weights)
    return some, len(keys) / max(len(some.key), 1)
