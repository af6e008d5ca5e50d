"""Look up the conditions of stored subscriptions and the attributes of stored objects, compiled in the node's cache.

Arrays of a group of data files are derived once on a node. A home without conditions has neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.base.arrays import offsets_of
from pststream.base.arrow_columns import utf8_of
from pststream.queries.conditions import (
    NODE,
    Attributes,
    Conditions,
    Evaluation,
    compile_conditions,
    keep_names,
    read_attributes,
)
from pststream.search.object_cache import group_request_files
from pststream.search.object_segments import row_order
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.storage.array_cache import ArrayCache, Paths

ATTRIBUTES = "attributes"
ATTRIBUTES_FIELD = TABLES[names.OBJECTS].schema.field(ATTRIBUTES)

_ROW_BITS = 32

MANY_ROWS = 4
"""If at least one of so many objects of a segment is evaluated, all are made ready for it, once for several calls."""


@dataclass(frozen=True)
class AskedConditions:
    """The conditions of a batch of questions or subscriptions, q of them.

    parts   compiled conditions, and the number of that of each question, -1: none of these: int32[q]
    """

    parts: tuple[tuple[Conditions, np.ndarray], ...]
    _whole: dict[int, list[Evaluation]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def are_needed(self) -> np.ndarray:
        """Which questions have a condition: bool[q]."""
        return np.any([numbers >= 0 for _, numbers in self.parts], axis=0)

    def take(self, questions: np.ndarray) -> "AskedConditions":
        """Return those of some questions, by their places: int64[n]."""
        return AskedConditions(tuple((compiled, numbers[questions]) for compiled, numbers in self.parts))

    def hold(self, snapshot: ObjectSnapshot, question: np.ndarray, segment: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return whether objects satisfy the conditions of questions: bool[n]; question, segment, row int64[n] each.

        The snapshot has the sources of its segments, and its weights name the node's cache.
        """
        satisfied = np.ones(len(question), bool)
        chosen = self.are_needed[question]
        for number in np.flatnonzero(np.bincount(segment[chosen])).tolist():
            pairs = np.flatnonzero(chosen & (segment == number))
            satisfied[pairs] = self.hold_in(snapshot, number, question[pairs], row[pairs])
        return satisfied

    def hold_in(self, snapshot: ObjectSnapshot, number: int, question: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Do what `hold` does with objects of one segment."""
        evaluations, place = self._evaluations(snapshot, number, row)
        satisfied = np.ones(len(question), bool)
        for evaluation, (_, numbers) in zip(evaluations, self.parts):
            condition = numbers.take(question)
            own = slice(None) if (condition >= 0).all() else np.flatnonzero(condition >= 0)
            satisfied[own] &= evaluation.holds(condition[own], place[own])
        return satisfied

    def _evaluations(
        self, snapshot: ObjectSnapshot, number: int, row: np.ndarray
    ) -> tuple[list[Evaluation], np.ndarray]:
        """Return an evaluation for each part about some rows of a segment (int64[n]), and the place of each there."""
        if number in self._whole:
            return self._whole[number], row
        wanted = np.zeros(len(snapshot.segments[number].keys), bool)
        wanted[row] = True
        weights = snapshot.term_weights
        attributes = _stored_attributes(snapshot.sources[number], weights.cache_dir, weights.cache_bytes)
        rows = np.flatnonzero(wanted)
        if MANY_ROWS * len(rows) >= len(wanted):
            self._whole.clear()  # one segment is searched after the other
            self._whole[number] = [Evaluation(compiled, attributes) for compiled, _ in self.parts]
            return self._whole[number], row
        attributes = attributes.take(rows)
        return [Evaluation(compiled, attributes) for compiled, _ in self.parts], (np.cumsum(wanted) - 1)[row]


def conditions_of(questions: Sequence[TimedQuestion]) -> AskedConditions | None:
    """Return the conditions of questions; None: none has any."""
    texts = pa.array([question.where for question in questions], pa.string()).dictionary_encode()
    if not len(texts.dictionary):
        return None
    compiled = compile_conditions(texts.dictionary.to_pylist())
    return AskedConditions(((compiled, texts.indices.fill_null(-1).to_numpy()),))


class _Group(NamedTuple):
    """The conditions of the subscriptions in a group of data files.

    first   int64[1]    the first file_seq of a subscription with a condition
    starts  int64[f+1]  slice of the rows of each file_seq from it on, in `table`
    table   int32[]     by row of the file: number of the condition; -1: none
    texts   string[c]   canonical form of each
    """

    first: np.ndarray
    starts: np.ndarray
    table: np.ndarray
    texts: pa.Array
    compiled: Conditions

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the number of the condition of each subscription (int64[n]), -1 without one: int32[n]."""
        file, row = (keys >> _ROW_BITS) - self.first[0], keys & ((1 << _ROW_BITS) - 1)
        is_known = (file >= 0) & (file < len(self.starts) - 1)
        file[~is_known] = 0
        place = self.starts.take(file) + row
        is_known &= place < self.starts.take(file + 1)
        place[~is_known] = 0
        return np.where(is_known, self.table.take(place), -1)


@dataclass(frozen=True)
class ConditionLog:
    """The conditions of the subscriptions of a home; small, since it travels with every task.

    groups   data files of `requests` with conditions; none: no subscription has one
    cache_dir, cache_bytes   as `task_context.cache_place` returns them
    """

    groups: tuple[Paths, ...] = ()
    cache_dir: str = ""
    cache_bytes: int = 0

    def __bool__(self) -> bool:
        """Whether a subscription has a condition."""
        return bool(self.groups)

    def project(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of objects with those attributes alone whose names occur in a condition."""
        if not self:
            return rows
        wanted = pa.concat_arrays([group.compiled.names for group in self._groups()])
        kept = keep_names(rows.column(ATTRIBUTES), wanted, ATTRIBUTES_FIELD.type)
        return rows.set_column(rows.schema.get_field_index(ATTRIBUTES), ATTRIBUTES_FIELD, kept)

    def are_met(self, keys: np.ndarray, rows: np.ndarray, attributes: pa.MapArray) -> np.ndarray:
        """Return for pairs whether the object satisfies the condition of the subscription, or there is none: bool[n].

        keys   int64[n]  of the subscriptions
        rows   int64[n]  of the objects in `attributes`, the column of `objects`
        """
        met, read = np.ones(len(keys), bool), None
        for group in self._groups():
            condition = group.find(keys)
            chosen = np.flatnonzero(condition >= 0)
            if len(chosen):
                read = read or read_attributes([attributes])
                met[chosen] = Evaluation(group.compiled, read).holds(condition[chosen], rows[chosen])
        return met

    def asked(self, keys: np.ndarray) -> AskedConditions | None:
        """Return the conditions of some subscriptions (int64[n]); None: none has any."""
        parts = tuple((group.compiled, group.find(keys)) for group in self._groups())
        return AskedConditions(parts) if any((numbers >= 0).any() for _, numbers in parts) else None

    def _groups(self) -> list[_Group]:
        return [_open_group(_condition_cache(self.cache_dir, self.cache_bytes), paths) for paths in self.groups]


def list_conditions(home: Home, cache_dir: str, cache_bytes: int, up_to: int = names.MAX_INT64) -> ConditionLog:
    """Return the conditions of the subscriptions that requests up to a key insert."""
    applied = KeyRange("request_key", -1, up_to).files(list_data_files(home, names.REQUESTS))
    files = [file for file in applied if "condition_names" in file.low]
    groups = group_request_files(files, addresses_and_rows(home, names.REQUESTS, files))
    return ConditionLog(groups, cache_dir, cache_bytes)


@lru_cache(maxsize=4)
def _condition_cache(folder: str, max_bytes: int) -> ArrayCache:
    return ArrayCache(folder, max_bytes, "conditions-1")


@lru_cache(maxsize=64)
def _open_group(cache: ArrayCache, paths: Paths) -> _Group:
    arrays = cache.arrays(paths, partial(_build_group, paths))
    labels, known, texts = (_from_arrays(arrays, name) for name in ("labels", "names", "texts"))
    nodes = arrays["nodes"].view(NODE).ravel()
    compiled = Conditions(arrays["roots"], nodes, arrays["planes"], known, labels)
    return _Group(arrays["first"], arrays["starts"], arrays["table"], texts, compiled)


def _build_group(paths: Paths) -> dict[str, np.ndarray]:
    columns = ["request_key", "conditions"]
    parts = [rows.filter(rows.column(1).is_valid()) for rows in read_slices(map(whole_file, paths), columns)]
    keys = np.concatenate([rows.column(0).to_numpy() for rows in parts])
    given = pa.chunked_array([rows.column(1).cast(pa.large_string()) for rows in parts])
    distinct = given.combine_chunks().dictionary_encode()
    file, row = keys >> _ROW_BITS, keys & ((1 << _ROW_BITS) - 1)
    first = file.min()
    sizes = np.zeros(file.max() - first + 1, np.int64)
    np.maximum.at(sizes, file - first, row + 1)
    starts = offsets_of(sizes)
    table = np.full(starts[-1], -1, np.int32)
    table[starts[file - first] + row] = distinct.indices.to_numpy()
    compiled = compile_conditions(distinct.dictionary.to_pylist())
    return {
        "first": np.array([first], np.int64),
        "starts": starts,
        "table": table,
        "roots": compiled.roots,
        "nodes": compiled.nodes.view(np.int64).reshape(-1, NODE.itemsize // 8),
        "planes": compiled.planes,
        **_as_arrays("labels", compiled.labels),
        **_as_arrays("names", compiled.names),
        **_as_arrays("texts", distinct.dictionary),
    }


def _as_arrays(name: str, texts: pa.Array) -> dict[str, np.ndarray]:
    data, offsets = utf8_of(texts)
    return {f"{name}_bytes": data[offsets[0] : offsets[-1]], f"{name}_offsets": offsets - offsets[0]}


def _from_arrays(arrays: dict[str, np.ndarray], name: str) -> pa.Array:
    data, offsets = arrays[f"{name}_bytes"], arrays[f"{name}_offsets"]
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


# Stored objects


@lru_cache(maxsize=4)
def attribute_cache(folder: str, max_bytes: int) -> ArrayCache:
    """Return the process's cache of attributes of objects; its folder is one of those of segments of objects."""
    return ArrayCache(folder, max_bytes, "objects-attributes-1")


def _stored_attributes(paths: Paths, cache_dir: str, cache_bytes: int) -> Attributes:
    """Return the attributes of the objects of a segment, in the order of its rows."""
    arrays = attribute_cache(cache_dir, cache_bytes).arrays(paths, partial(_build_attributes, paths))
    texts = {name: _from_arrays(arrays, name) for name in ("names", "labels")}
    return Attributes(**{name: arrays[name] for name in Attributes._fields if name not in texts}, **texts)


def _build_attributes(paths: Paths) -> dict[str, np.ndarray]:
    places, columns = [np.empty((2, 0))], list[pa.MapArray]()
    for rows in read_slices(map(whole_file, paths), ["lon", "lat", ATTRIBUTES]):
        places.append(np.stack([rows.column("lon").to_numpy(), rows.column("lat").to_numpy()]))
        columns.append(rows.column(ATTRIBUTES))
    read = read_attributes(columns).take(row_order(*np.hstack(places)))
    plain = {name: getattr(read, name) for name in ("offsets", "name", "value", "numbers", "times")}
    return plain | _as_arrays("names", read.names) | _as_arrays("labels", read.labels)
