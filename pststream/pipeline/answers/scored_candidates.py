"""Find the candidates of the `topk` subscriptions of a bucket among the objects of a batch.

The index of a bucket (scored_index) is a function of the bucket's state, the request log and the weights of words. It
stays in a folder of the node, and before each search it is compared with the state: what differs is changed. So it may
be of any batch, or missing. Other weights have a folder of their own.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from pststream.answers.bucket_file import BucketState
from pststream.answers.contract import Values
from pststream.answers.scored_index import IndexFolder, Messages, ScoredIndex, ScoredSubscriptions
from pststream.base.arrow_columns import csr, micros
from pststream.kernels.answers.columns import LIVE
from pststream.kernels.answers.fold_rows import rows_of_keys
from pststream.matching.verified_clauses import TEXT_COLUMNS, with_phrases
from pststream.pipeline.answers.answer_context import UNITS, AnswerContext, short_digest
from pststream.pipeline.answers.ranked_kinds import points_of
from pststream.pipeline.answers.standing_queries import Queries, StandingQueries, verified_queries
from pststream.queries.text.phrases import PhraseTable
from pststream.search.stored_conditions import ATTRIBUTES
from pststream.search.term_weights import TermWeights
from pststream.search.verified_questions import ScoredObjects, ScoredWords


def find_scored_candidates(
    context: AnswerContext, bucket: int, state: BucketState, queries: StandingQueries
) -> Iterator[Values]:
    """Yield the objects of the batch that may enter answers of scored subscriptions, with their values.

    state  of the bucket after the batch before, locked by the caller
    """
    if not context.messages:
        return
    columns, weights = state.columns, context.segments.weights
    live = np.flatnonzero(columns.status == LIVE)
    folder = context.index_folder(bucket)
    of_weights = folder.with_name(f"{folder.name}-{short_digest((weights.version, weights.files))}")
    if not of_weights.exists():
        drop_scored_index(folder)
    index = bring_up_index(of_weights, columns.key[live], columns.threshold[live], queries, weights, state.batch_id)
    if not index.segments:
        return
    for rows in context.read_messages(context.messages):
        searched = verify_scores(index.find_candidates(as_messages(rows, weights)), rows, queries, weights)
        yield that_meet_conditions(context, rows, searched)


def verify_scores(searched: Values, rows: pa.RecordBatch, queries: StandingQueries, weights: TermWeights) -> Values:
    """Return candidates with the scores that phrases and exclusions leave them, without those that do not count.

    rows   the objects (`AnswerContext.read_messages`); without TEXT_COLUMNS nothing is verified
    """
    if TEXT_COLUMNS[0] not in rows.schema.names or not len(searched.subscription):
        return searched
    keys, position = np.unique(searched.subscription, return_inverse=True)
    is_known, chosen = queries.select(keys)
    verified = verified_queries(chosen)
    if verified is None:
        return searched
    query = np.where(is_known, np.cumsum(is_known) - 1, 0)[position]
    pairs = np.flatnonzero(is_known[position] & verified.are_needed[query])
    order = np.argsort(rows.column("object_key").to_numpy(), kind="stable")
    object_keys = rows.column("object_key").to_numpy()[order]
    thing, row = np.unique(order[np.searchsorted(object_keys, searched.object[pairs])], return_inverse=True)
    things = rows.take(pa.array(thing))
    offsets, terms = csr(things.column("terms"))
    tables = [PhraseTable(verified.word_offsets, verified.words)] if len(verified.words) else []
    own = csr(with_phrases(things, tables).column("terms"))
    places = np.column_stack([things.column(name).to_numpy() for name in ("lon", "lat")])
    objects = ScoredObjects(places, offsets, weights.of_terms(terms), own)
    records = np.column_stack([points_of(chosen.numbers), chosen.numbers[:, 2:4]])
    asked = ScoredWords(records, chosen.clause_offsets, chosen.terms, weights.of_terms(chosen.terms))
    value = searched.value.copy()
    value[pairs] = verified.score(asked, (row, query[pairs]), objects)
    return Values(*(column[~np.isnan(value)] for column in searched._replace(value=value)))


def that_meet_conditions(context: AnswerContext, objects: pa.RecordBatch, candidates: Values) -> Values:
    """Return the candidates whose objects satisfy the conditions of the subscriptions on attributes."""
    if not context.conditions or not len(candidates.object):
        return candidates
    keys = objects.column("object_key").to_numpy()
    order = np.argsort(keys)
    rows = order[np.searchsorted(keys, candidates.object, sorter=order)]
    met = context.conditions.are_met(candidates.subscription, rows, objects.column(ATTRIBUTES))
    return Values(*(column[met] for column in candidates))


def drop_scored_index(folder: Path) -> None:
    """Delete the index of a bucket, for all weights; folder: `AnswerContext.index_folder`."""
    for one in folder.parent.glob(f"{folder.name}*"):
        shutil.rmtree(one, ignore_errors=True)


def drop_other_units(context: AnswerContext) -> None:
    """Delete the indexes of units of other plans of `topk`, for other weights, or before a removal of rows."""
    kept = None if context.topk_version is None else context.units_folder()
    for one in context.index_folder(0).parent.glob(f"{UNITS}*"):
        if one != kept:
            shutil.rmtree(one, ignore_errors=True)


def bring_up_index(
    path: Path, keys: np.ndarray, thresholds: np.ndarray, queries: StandingQueries, weights: TermWeights, batch_id: int
) -> ScoredIndex:
    """Return the index of the scored ones among the subscriptions with these keys (ascending) and thresholds, and write
    what changes.
    """
    folder = IndexFolder(path)
    opened = folder.open()
    index = opened[0] if opened else ScoredIndex()
    is_lacking, is_changed, gone = _compare(index, keys, thresholds)
    new = np.flatnonzero(is_lacking)
    new = new[queries.are_scored(keys[new])]
    if opened and not (len(new) or is_changed.any() or len(gone)):
        return index
    folder.begin_changes()
    is_known, chosen = queries.select(keys[new])
    index.insert(as_subscriptions(chosen, thresholds[new][is_known], weights))
    index.change_thresholds(keys[is_changed], thresholds[is_changed])
    index.delete(gone)
    folder.write(index, batch_id)
    return index


def _compare(index: ScoredIndex, keys: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which keys the index lacks, and which have another threshold there: bool[n]; and its other keys."""
    is_lacking, is_changed, gone = np.ones(len(keys), bool), np.zeros(len(keys), bool), [np.empty(0, np.int64)]
    for segment in index.segments:
        position = rows_of_keys(keys, segment.keys)
        is_indexed = segment.thresholds > -np.inf
        is_wanted = is_indexed & (position >= 0)
        is_lacking[position[is_wanted]] = False
        is_changed[position[is_wanted]] = thresholds[position[is_wanted]] != segment.thresholds[is_wanted]
        gone.append(segment.keys[is_indexed & ~is_wanted])
    return is_lacking, is_changed, np.concatenate(gone)


def as_subscriptions(queries: Queries, thresholds: np.ndarray, weights: TermWeights) -> ScoredSubscriptions:
    """Return queries, whose clauses have one word each, as subscriptions of the index."""
    (lon, lat), (alpha, scale) = points_of(queries.numbers).T, queries.numbers[:, 2:4].T
    words = weights.of_terms(queries.terms)
    return ScoredSubscriptions(
        queries.key, lon, lat, alpha, scale, thresholds, queries.clause_offsets, queries.terms, words
    )


def as_messages(rows: pa.RecordBatch, weights: TermWeights) -> Messages:
    """Return objects (object_key, ts, lon, lat, terms) as messages."""
    offsets, terms = csr(rows.column("terms"))
    return Messages(
        rows.column("object_key").to_numpy(),
        micros(rows.column("ts")),
        rows.column("lon").to_numpy(),
        rows.column("lat").to_numpy(),
        offsets,
        terms,
        weights.of_terms(terms),
    )
