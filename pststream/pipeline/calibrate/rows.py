"""Draw the objects of a benchmark, and convert objects and subscriptions to the input of matching."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import lists
from pststream.base.errors import InputFileError
from pststream.kernels.matching.match_segment import Objects
from pststream.matching.matcher import sort_objects
from pststream.matching.segments import NO_VERIFIED
from pststream.queries.shapes.registry import PIECE_COLUMNS, SIDES
from pststream.queries.text.tokenizer import terms_of
from pststream.state.plans import TermFrequencies
from pststream.workloads.object_sample import as_degrees, read_columns
from pststream.workloads.places import Places
from pststream.workloads.random_texts import PowerLaw
from pststream.workloads.synthetic_arrays import (
    DEFAULT_VOCABULARY,
    SyntheticObjects,
    SyntheticSubscriptions,
    synthetic_objects,
    term_ids,
)


def frequencies(objects: SyntheticObjects) -> TermFrequencies:
    """Count the objects with each term, ranked as in a plan's vocabulary."""
    return TermFrequencies(*np.unique(term_ids(objects.terms), return_counts=True))


def object_batch(objects: SyntheticObjects) -> Objects:
    """Return all objects as one batch, each probed with all its terms."""
    terms = term_ids(objects.terms)
    count = len(objects.lon)
    return sort_objects(
        objects.lon, objects.lat, np.zeros(count, np.int64), objects.term_offsets, terms, np.zeros(len(terms), np.int32)
    )


def clause_lists(subscriptions: SyntheticSubscriptions) -> pa.ListArray:
    """Return the clauses of each subscription: list<list<int64>>."""
    return lists(subscriptions.clause_offsets, lists(subscriptions.term_offsets, term_ids(subscriptions.terms)))


def index_table(subscriptions: SyntheticSubscriptions, clauses: pa.ListArray) -> pa.Table:
    """Return the rows of `worker_index` of one worker for subscriptions that are always valid."""
    count = len(subscriptions.boxes)
    sides = {side: subscriptions.boxes[:, index] for index, side in enumerate(SIDES)}
    return pa.table(
        {
            "subscription_key": np.arange(count),
            **{column.name: pa.nulls(count, column.type) for column in PIECE_COLUMNS},
            **{column.name: pa.nulls(count, column.type) for column in NO_VERIFIED},
            **sides,
            "clauses": clauses,
            "created_at": np.full(count, names.NO_TIME),
            "end_at": np.full(count, names.NEVER_US),
            "kind": pa.nulls(count, pa.string()),
            "unit": pa.nulls(count, pa.int64()),
        }
    )


class ObjectSource(Protocol):
    """Draws objects."""

    @property
    def description(self) -> str:
        """Return how many words the objects have, and where they are from, for the results page."""

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw `count` objects; the same seed draws the same."""


@dataclass(frozen=True)
class CityObjects:
    """Objects around the cities of the USA, or around `places`."""

    places: Places | None = None
    description: str = f"{DEFAULT_VOCABULARY.size:,} words"

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw `count` objects."""
        return synthetic_objects(count, seed, places=self.places)


@dataclass(frozen=True)
class FileObjects:
    """The objects of a file, drawn evenly with replacement."""

    objects: SyntheticObjects
    description: str

    def draw(self, count: int, seed: int) -> SyntheticObjects:
        """Draw `count` rows."""
        chosen = np.random.default_rng([seed, 1]).integers(0, len(self.objects.lon), count)
        begins, ends = self.objects.term_offsets[chosen], self.objects.term_offsets[chosen + 1]
        offsets = np.append(0, np.cumsum(ends - begins))
        positions = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], ends - begins)
        return SyntheticObjects(
            self.objects.lon[chosen],
            self.objects.lat[chosen],
            offsets,
            self.objects.terms[positions],
            self.objects.vocabulary,
        )


def read_objects(path: str) -> FileObjects:
    """Read the columns `lon`, `lat` and `text` of a CSV, JSON Lines or Parquet file.

    Rows without a place in [-180, 180] and [-90, 90] or without a word are left out. Terms are ranks, the most frequent
    first. Raises InputFileError if the file cannot be read or has no such row.
    """
    try:
        table = read_columns(path, ["lon", "lat", "text"])
        lon, lat = as_degrees(table.column("lon")), as_degrees(table.column("lat"))
        terms = terms_of(table.column("text").cast(pa.large_string()).combine_chunks())
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, ValueError, KeyError) as error:
        raise InputFileError(path, f"cannot be read: {error}", "it needs columns lon, lat, text") from None
    valid = (np.abs(lon) <= 180.0) & (np.abs(lat) <= 90.0) & (pc.list_value_length(terms).to_numpy() > 0)
    kept = terms.filter(pa.array(valid))
    if not len(kept):
        raise InputFileError(path, "has no row with a place and a word", "it needs columns lon, lat, text")
    ids, ranks = np.unique(kept.flatten().to_numpy(), return_inverse=True)
    rank = np.empty(len(ids), np.int32)
    rank[np.argsort(-np.bincount(ranks), kind="stable")] = np.arange(len(ids), dtype=np.int32)
    lengths = pc.list_value_length(kept).to_numpy().astype(np.int64)
    owner, terms_by_rank = np.repeat(np.arange(len(lengths)), lengths), rank[ranks]
    ascending = terms_by_rank[np.lexsort((terms_by_rank, owner))]
    offsets = np.append(0, np.cumsum(lengths))
    objects = SyntheticObjects(lon[valid], lat[valid], offsets, ascending, PowerLaw(len(ids)))
    return FileObjects(objects, f"{len(ids):,} words of {len(kept):,} objects of a file")
