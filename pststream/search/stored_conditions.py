"""Look up the conditions of stored subscriptions and the attributes of stored objects, compiled in the node's cache.

Arrays of a group of data files are derived once on a node. A home without conditions has neither.
"""

from collections.abc import Iterator
from dataclasses import dataclass
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
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.storage.array_cache import ArrayCache, Paths

ATTRIBUTES = "attributes"
ATTRIBUTES_FIELD = TABLES[names.OBJECTS].schema.field(ATTRIBUTES)

_ROW_BITS = 32

KEPT_OBJECTS = 20_000_000
"""Objects of the snapshots of those that satisfy a condition, of all together, that a process keeps; one at least."""


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

    def texts(self, keys: np.ndarray) -> list[str | None]:
        """Return the canonical form of the condition of each subscription (int64[n]); None without one."""
        texts: list[str | None] = [None] * len(keys)
        for group in self._groups():
            condition = group.find(keys)
            for place in np.flatnonzero(condition >= 0).tolist():
                texts[place] = group.texts[condition[place]].as_py()
        return texts

    def split(self, snapshot: ObjectSnapshot, keys: np.ndarray) -> Iterator[tuple[np.ndarray, ObjectSnapshot]]:
        """Yield the subscriptions with one condition, as places in `keys` (int64[n]), and the objects that count.

        Those without a condition come last; without subscriptions they are the only group, which is empty then.
        """
        groups: dict[str | None, list[int]] = {}
        for place, text in enumerate(self.texts(keys) if self else []):
            groups.setdefault(text, []).append(place)
        plain = groups.pop(None, []) if self else range(len(keys))
        for text, places in groups.items():
            yield np.array(places, np.int64), objects_that_meet(snapshot, text or "")
        if len(plain) or not groups:
            yield np.array(plain, np.int64), snapshot

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


def objects_that_meet(snapshot: ObjectSnapshot, condition: str) -> ObjectSnapshot:
    """Return a snapshot in which only the objects that satisfy a condition count for questions.

    The given one has the sources of its segments, and its weights name the node's cache. Windows of a number of objects
    are resolved in it, as they count all objects.
    """
    if condition in snapshot.restricted:
        return snapshot.restricted[condition]
    compiled, weights = compile_conditions([condition]), snapshot.term_weights

    def fail(number: int) -> np.ndarray:
        attributes = _stored_attributes(snapshot.sources[number], weights.cache_dir, weights.cache_bytes)
        rows = np.arange(len(attributes.offsets) - 1)
        return ~Evaluation(compiled, attributes).holds(np.zeros(len(rows), np.int64), rows)

    restricted = snapshot.without_rows([fail(number) for number in range(len(snapshot.segments))])
    objects = sum(len(segment.keys) for segment in snapshot.segments)
    if (len(snapshot.restricted) + 1) * objects > KEPT_OBJECTS:
        snapshot.restricted.clear()
    snapshot.restricted[condition] = restricted
    return restricted


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
