"""Estimate how many candidates an object of the next batch has, and limit the number of objects accordingly.

A candidate is an object that may enter the answer of a subscription with memory. As long as a subscription has fewer
objects than it keeps, every object that satisfies its keywords is a candidate. So while most subscriptions are new, an
object may be a candidate of hundreds of thousands of them. The answers do not depend on how many objects a batch has.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from pststream.base import names
from pststream.base.arrow_columns import csr
from pststream.base.sorted_keys import distinct_values, look_up
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import cache_place, term_frequencies
from pststream.pipeline.answers.answer_context import group_requests, open_queries
from pststream.pipeline.answers.log_rows import ENTRY, is_event, list_state_files, slices_of
from pststream.pipeline.answers.standing_queries import Queries, clauses_of, take_queries
from pststream.pipeline.index.superseded_pieces import has_standing_queries
from pststream.plans.pieces import rarest_clause_first
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.plans import current_version
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks
from pststream.storage.array_cache import Paths
from pststream.tables.log_end import RECENT_BATCHES, Ledger, Pending


def limit_objects(home: Home, settings: Settings, ledger: Ledger, pending: Pending, most: int) -> int:
    """Return how many of the pending objects, `most` at most, have about `settings.max_candidates` candidates.

    It is at least 1. Each object is expected to have as many as one of the last batch with objects had, and those of
    the subscriptions that have lacked objects since then.
    """
    if not has_standing_queries(home, ledger.requests_applied) or pending.objects_to <= pending.objects_after:
        return most
    last, objects = ledger.next_batch_id - 1, min(most, ledger.pending_objects())
    batch = next((batch for batch in reversed(ledger.batches) if batch["objects"]), None)
    expected = sum(dict(batch["candidates"] or ()).values()) / batch["objects"] if batch else 0.0
    since = batch["batch_id"] - 1 if batch else last - RECENT_BATCHES
    changed = list_state_files(home, since, last)
    if (expected + sum(file.rows for file in changed)) * objects > settings.max_candidates:
        words = _count_words(home, settings, changed, KeyRange("batch_id", since, last), pending.requests_to)
        expected += _expect_per_object(home, KeyRange("object_key", pending.objects_after, pending.objects_to), words)
    return most if expected * objects <= settings.max_candidates else max(int(settings.max_candidates / expected), 1)


def _count_words(
    home: Home, settings: Settings, files: list[DataFile], batches: KeyRange, requests_to: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the words that bring candidates to subscriptions that lack objects since these batches.

    Returns term ids, ascending, and how many of the subscriptions each brings candidates to: int64[n] each.
    """
    tasks = split_into_tasks((one.path, one.rows) for one in slices_of(home, files))
    groups = group_requests(home, requests_to)
    count = partial(_count_in_task, home.path, current_version(home), groups, cache_place(settings), batches)
    counted = get_engine(settings).run_tasks(tasks, count) if tasks else []
    terms, place = np.unique(np.concatenate([np.empty(0, np.int64), *(one for one, _ in counted)]), return_inverse=True)
    counts = np.concatenate([np.empty(0, np.int64), *(one for _, one in counted)])
    return terms, np.bincount(place, counts, minlength=len(terms)).astype(np.int64)


def _count_in_task(
    home: str,
    version: int,
    groups: tuple[Paths, ...],
    cache: tuple[str, int],
    batches: KeyRange,
    slices: tuple[Slice, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the words and their numbers of subscriptions (see `_count_words`) by the slices of `answer_log`."""
    queries, posted = open_queries(groups, cache), [np.empty(0, np.int64)]
    for rows in read_slices(slices, ["event", "subscription_key", "value", "batch_id"], batches):
        lacking = ~is_event(rows, ENTRY) & np.isinf(rows.column("value").to_numpy(zero_copy_only=False))
        _, chosen = queries.select(distinct_values(rows.column("subscription_key").to_numpy()[lacking]))
        posted += _words_of(chosen, term_frequencies(home, version).frequency)
    terms, counts = np.unique(np.concatenate(posted), return_counts=True)
    return terms, counts


def _words_of(queries: Queries, frequency: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
    """Return the words that bring candidates to subscriptions: int64[] each, a word once for each subscription.

    Those of scored ones are all words, those of others the words of the clause that is the rarest in the sample of the
    plan.
    """
    scored, near = (np.flatnonzero(chosen) for chosen in (queries.are_scored, ~queries.are_scored))
    words = [take_queries(queries, scored).terms]
    if len(near):
        words.append(rarest_clause_first(clauses_of(take_queries(queries, near)), frequency)[2])
    return words


def _expect_per_object(home: Home, objects: KeyRange, words: tuple[np.ndarray, np.ndarray]) -> float:
    """Return how many candidates words (see `_count_words`) bring to an object: the mean of the first pending ones."""
    terms, counts = words
    files = sorted(objects.files(list_data_files(home, names.OBJECTS)), key=lambda file: file.low["object_key"])
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.OBJECTS, files)]
    first = next((rows for rows in read_slices(slices, ["object_key", "terms"], objects) if rows.num_rows), None)
    if first is None or not len(terms):
        return 0.0
    _, of_objects = csr(first.column("terms"))
    brought = int(look_up(of_objects, terms, counts, 0).sum())
    return brought / first.num_rows + int(counts[terms == names.EVERY_OBJECT].sum())
