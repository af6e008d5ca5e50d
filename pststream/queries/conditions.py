"""Parse conditions on attributes (`where`), compile many of them into arrays, and evaluate them for pairs.

A condition has a test for each name, and all must hold. The compiled form is a decision tree for each condition: a node
compares one value of one attribute with a range, and says which node is next where the value is below, within or above
it. A value that the attribute lacks is below every range. So any number of pairs of a condition and an object goes
through the trees together, one step of each at a time, whatever the conditions are.

A value is a number for each class of ranges: of its text or truth value, of the number that it is, of the time that it
is, and of its presence. Numbers are compared as float64, times in microseconds.
"""

import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import concatenate_ranges, find_among, offsets_of
from pststream.base.arrow_columns import one_array, take_lists
from pststream.base.utc_times import EPOCH, from_micros, iso
from pststream.queries.decode_json import decode_json
from pststream.queries.kinds.contract import MAX_WHERE_BYTES, FieldError

FIELD = "where"
"""The field of requests and questions."""

MOST_NAMES = 32
MOST_VALUES = 1_000
"""Values of a condition in all, with its bounds."""

OBJECT_FIELDS = ("object_id", "ts", "lon", "lat", "text")
"""The fields of objects; all other columns are attributes."""

_BOUNDS = ("gt", "gte", "lt", "lte")
_OTHER_NAMES = {
    **{">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "ge": "gte", "le": "lte", "min": "gte", "max": "lte"},
    **{"from": "gte", "to": "lte", "since": "gte", "until": "lt", "above": "gt", "below": "lt", "present": "exists"},
}
_EXAMPLE = 'such as {"offense": ["robbery", "burglary"], "magnitude": {"gte": 5}, "verified": true}'

# Requests


def parse_where_field(record: Mapping[str, Any]) -> str | None:
    """Return the field `where`, an object or its JSON text, in its canonical form; None without one.

    In this form names are in order, lists are in order and have each value once, a list of one value is that value, and
    times of bounds are in UTC. Raises FieldError.
    """
    given = record.get(FIELD)
    if given is None:
        return None
    try:
        value = decode_json(given) if isinstance(given, str) else given
        if not isinstance(value, Mapping) or not value:
            raise _fault(given, f"it is no object with conditions, {_EXAMPLE}")
        if len(value) > MOST_NAMES:
            raise _fault(given, f"it has {len(value)} names, more than {MOST_NAMES}")
        tests = {name: _parse_test(name, value[name]) for name in sorted(value)}
        count = sum(len(test) if isinstance(test, list | dict) else 1 for test in tests.values())
        if count > MOST_VALUES:
            raise _fault(given, f"it has {count} values, more than {MOST_VALUES}")
        canonical = json.dumps(tests, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        size = len(canonical.encode())
    except (ValueError, TypeError) as error:  # no JSON, half a character, or names that are no texts
        raise _fault(given, f"it cannot be read: {error}; it is an object with conditions, {_EXAMPLE}") from None
    if size > MAX_WHERE_BYTES:
        raise _fault(given, f"it has {size} bytes, more than {MAX_WHERE_BYTES}")
    return canonical


def _fault(raw: Any, detail: str) -> FieldError:
    return FieldError(FIELD, "unreadable_where", raw, f"where: {detail}")


def _parse_test(name: str, wanted: Any) -> Any:
    """Return the canonical form of the test of one attribute; raises FieldError."""
    if name in OBJECT_FIELDS:
        advice = f'"{name}" is a field of objects and no attribute'
        raise _fault(wanted, f'{advice}; an attribute that would have this name is named "_{name}"')
    if isinstance(wanted, Mapping):
        return _parse_bounds(name, wanted)
    if not isinstance(wanted, list | tuple):
        return _parse_value(name, wanted)
    if not wanted:
        raise _fault(wanted, f'"{name}": an empty list is met by no value')
    values = {(type(value) is bool, value): value for value in (_parse_value(name, value) for value in wanted)}
    ordered = sorted(values.values(), key=lambda value: (_sort_of(value), value))
    return ordered if len(ordered) > 1 else ordered[0]


def _sort_of(value: Any) -> int:
    return 0 if isinstance(value, bool) else 2 if isinstance(value, str) else 1


def _parse_value(name: str, value: Any) -> Any:
    if value is None:
        raise _fault(value, f'"{name}": null is no value; {{"exists": false}} asks for objects without the attribute')
    if isinstance(value, bool | str):
        return value
    if not isinstance(value, int | float):
        raise _fault(value, f'"{name}": it is neither text, number, true, false, a list of them nor bounds, {_EXAMPLE}')
    return _parse_number(name, value)


def _parse_number(name: str, value: float) -> float:
    """Return a number in its canonical form: whole ones without a fraction."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _fault(str(value), f'"{name}": the number is not finite')
    if isinstance(value, int) and int(number) != value:
        raise _fault(value, f'"{name}": numbers have at most 53 bits, about 16 digits; give an id as a text in quotes')
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _parse_bounds(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    if not wanted:
        raise _fault(wanted, f'"{name}": it has no bound')
    for operator in wanted:
        if operator not in (*_BOUNDS, "exists"):
            near = [_OTHER_NAMES.get(operator.lower(), ""), *get_close_matches(operator.lower(), (*_BOUNDS, "exists"))]
            meant = next((f"did you mean {one}?" for one in near if one), f"there are {', '.join(_BOUNDS)} and exists")
            equal = "; values that it may equal are given as they are, several in a list"
            raise _fault(wanted, f'"{name}": {operator[:40]!r} is no operator; {meant}{"" if near[0] else equal}')
    if "exists" in wanted:
        if len(wanted) > 1 or not isinstance(wanted["exists"], bool):
            raise _fault(wanted, f'"{name}": exists is true or false, and stands alone: bounds ask for a value anyway')
        return dict(wanted)
    for pair in (("gt", "gte"), ("lt", "lte")):
        if all(one in wanted for one in pair):
            raise _fault(wanted, f'"{name}": give {pair[0]} or {pair[1]}, not both')
    bounds = {operator: _parse_bound(name, operator, value) for operator, value in wanted.items()}
    if len({isinstance(bound, str) for bound in bounds.values()}) > 1:
        raise _fault(wanted, f'"{name}": one bound is a number and one is a time')
    low, high = _range_of_bounds(bounds)
    if low > high:
        raise _fault(wanted, f'"{name}": no value lies within these bounds')
    return bounds


def _parse_bound(name: str, operator: str, value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _parse_number(name, value)
    moment = _time_of(value) if isinstance(value, str) else MISSING
    try:
        if moment != MISSING:
            return iso(from_micros(moment))
    except OverflowError:
        pass
    advice = "write a number without quotes; " if _as_number("text", value) is not None else ""
    forms = "a time such as 2026-01-31, 2026-01-31T12:00:00Z or 2026-01-31 12:00:00.5+01:00"
    raise _fault(value, f'"{name}": the bound {operator} is neither a number nor a time; {advice}{forms} is read')


def count_names(condition: str | None) -> int | None:
    """Return how many names a condition in its canonical form has; None stays."""
    return None if condition is None else len(json.loads(condition))


# Without the compiled form, for `explain`


def first_failed_test(condition: str | None, attributes: Mapping[str, Mapping[str, str]]) -> str | None:
    """Say in a sentence which test of a condition an object fails first; None if all hold, or without a condition.

    attributes  the type and the value of each, as the column `attributes` of `objects` has them
    """
    for name, wanted in (json.loads(condition) if condition else {}).items():
        stored = attributes.get(name)
        if not _meets(stored, wanted):
            has = f"is {stored['value'][:200]!r} ({stored['type']})" if stored else "is absent"
            asked = json.dumps(wanted, ensure_ascii=False)
            return f"the attribute {name!r} {has}, and the condition is {asked}"
    return None


def as_attributes(stored: Sequence[tuple[str, Mapping[str, str] | None]] | None) -> dict[str, Mapping[str, str]]:
    """Return the attributes that have a value, of a value of the column `attributes` as Arrow converts it."""
    return {name: value for name, value in stored or () if value is not None and value["value"] is not None}


def _meets(stored: Mapping[str, str] | None, wanted: Any) -> bool:
    if isinstance(wanted, dict) and "exists" in wanted:
        return (stored is not None) == wanted["exists"]
    if stored is None:
        return False
    if isinstance(wanted, dict):
        return all(_within_bound(stored, operator, bound) for operator, bound in wanted.items())
    return any(_equals(stored, value) for value in (wanted if isinstance(wanted, list) else [wanted]))


def _equals(stored: Mapping[str, str], value: Any) -> bool:
    kind, text = stored["type"], stored["value"]
    if isinstance(value, bool):
        return kind == "boolean" and text == ("true" if value else "false")
    if isinstance(value, str):
        moment = _as_time("text", value) if kind == "time" else None
        return (kind == "text" and text == value) or (moment is not None and moment == _as_time(kind, text))
    return _as_number(kind, text) == value


def _within_bound(stored: Mapping[str, str], operator: str, bound: Any) -> bool:
    value: Any
    if isinstance(bound, str):
        value, bound = _as_time(stored["type"], stored["value"]), _as_time("text", bound)
    else:
        value = _as_number(stored["type"], stored["value"])
    if value is None:
        return False
    return bool({"gt": value > bound, "gte": value >= bound, "lt": value < bound, "lte": value <= bound}[operator])


_DECIMAL = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?")
_DATE_AND_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([T ]([0-9]{2}:[0-9]{2})(:([0-9]{2})([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}:[0-5][0-9])?)?"
)


def _as_number(kind: str, text: Any) -> float | None:
    if kind not in ("number", "text") or not isinstance(text, str) or not _DECIMAL.fullmatch(text.strip(_BLANKS)):
        return None
    number = float(text.strip(_BLANKS))
    return number if math.isfinite(number) else None


def _as_time(kind: str, text: str) -> int | None:
    """Return microseconds since 1970; None: it is no time."""
    parts = _DATE_AND_TIME.fullmatch(text.strip(_BLANKS)) if kind in ("time", "text") else None
    if parts is None:
        return None
    day, _, clock, _, seconds, fraction, zone = parts.groups()
    try:
        moment = dt.datetime.fromisoformat(f"{day}T{clock or '00:00'}:{seconds or '00'}+00:00")
        shift = dt.datetime.fromisoformat(f"2000-01-01T00:00{zone or 'Z'}").utcoffset()
    except ValueError:
        return None
    micros = int(((fraction or ".0")[1:] + "000000")[:6])
    return (moment - EPOCH - (shift or dt.timedelta())) // dt.timedelta(microseconds=1) + micros


_BLANKS = " \t"
"""What may stand around a number or a time in a text."""

# Values of attributes, in columns

MISSING = names.MIN_INT64
"""Stands for a value that an attribute does not have; it is below every range."""

LABEL, NUMBER, TIME, MOMENT, PRESENCE = range(5)
"""Classes of values and ranges: texts and truth values by their number among the labels; numbers as integers in the
same order; times in microseconds; the same of attributes of the type time alone, which texts may equal; 1 for an
attribute that the object has, 0 for another.
"""

_NUMBER_FORM = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_TIME_FORM = (
    "^(?P<year>[0-9]{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12][0-9]|3[01])"
    "(?:[T ](?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
    "(?::(?P<second>[0-5][0-9])(?:[.](?P<fraction>[0-9]{1,9}))?)?"
    "(?:Z|(?P<sign>[+-])(?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9]))?)?$"
)


def numbers_of_texts(texts: pa.Array) -> np.ndarray:
    """Return the numbers that texts are as integers in the same order, MISSING for other texts: int64[n]."""
    plain = pc.utf8_trim(texts, _BLANKS)
    is_number = pc.fill_null(pc.match_substring_regex(plain, _NUMBER_FORM), False)
    values = np.full(len(texts), MISSING)
    numbers = plain.filter(is_number).cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # -0 is 0
    bits = numbers.view(np.int64)
    values[is_number.to_numpy(zero_copy_only=False)] = np.where(
        np.isfinite(numbers), bits ^ ((bits >> 63) & names.MAX_INT64), MISSING
    )
    return values


def times_of_texts(texts: pa.Array) -> np.ndarray:
    """Return the times that texts are in microseconds since 1970, MISSING for other texts: int64[n].

    A time is a day, or a day and a time of day to the minute, second or a fraction of it, with or without a zone, which
    is UTC then. Digits after the microseconds do not count.
    """
    parts = pc.extract_regex(pc.utf8_trim(texts, _BLANKS), _TIME_FORM)
    indices = np.flatnonzero(parts.is_valid().to_numpy(zero_copy_only=False))
    parts = parts.take(pa.array(indices))

    def digits(name: str, width: int = 2) -> np.ndarray:
        text = pc.utf8_rpad(pc.struct_field(parts, name), width, "0")
        return text.cast(pa.int64()).to_numpy(zero_copy_only=False)

    month = (digits("year", 4) - 1970) * 12 + digits("month") - 1
    first, after = (of.astype("M8[M]").astype("M8[D]").astype(np.int64) for of in (month, month + 1))
    day = first + digits("day") - 1
    shift = (digits("hours") * 60 + digits("minutes")) * 60
    shift = np.where(pc.equal(pc.struct_field(parts, "sign"), "-").to_numpy(zero_copy_only=False), -shift, shift)
    seconds = (day * 24 + digits("hour")) * 3_600 + digits("minute") * 60 + digits("second") - shift
    values = np.full(len(texts), MISSING)
    is_day = (day < after) & (digits("year", 4) > 0)
    values[indices] = np.where(is_day, seconds * 1_000_000 + digits("fraction", 9) // 1_000, MISSING)
    return values


@lru_cache(maxsize=1 << 14)
def _time_of(text: str) -> int:
    return int(times_of_texts(pa.array([text]))[0])


class Attributes(NamedTuple):
    """The attributes of n objects, m in all; their names and their values are numbered, each distinct one once.

    offsets  int64[n+1]  slice of the attributes of each object
    name     int32[m]    number of its name
    value    int32[m]    number of its value
    names    large_string[]   the names
    labels   large_string[v]  type and value, with a colon between them; of the type json the type alone
    numbers  int64[v]    see NUMBER; MISSING: it is none
    times    int64[v]    see TIME; MISSING: it is none
    """

    offsets: np.ndarray
    name: np.ndarray
    value: np.ndarray
    names: pa.Array
    labels: pa.Array
    numbers: np.ndarray
    times: np.ndarray

    def take(self, rows: np.ndarray) -> "Attributes":
        """Return the attributes of some objects (int64[k]), in this order."""
        offsets, chosen = take_lists((self.offsets, np.arange(len(self.name))), rows)
        return self._replace(offsets=offsets, name=self.name[chosen], value=self.value[chosen])


def read_attributes(columns: Sequence[pa.MapArray]) -> Attributes:
    """Number the attributes of rows of `objects`, the parts of the column `attributes`; those without a value are left
    out.
    """
    lengths, keys, labels = [np.empty(0, np.int64)], list[pa.Array](), list[pa.Array]()
    for column in columns:
        of_part, *texts = _flatten(column)
        lengths.append(of_part)
        for parts, part in zip((keys, labels), texts):
            parts.append(part)
    name, label = (
        one_array(pa.chunked_array(parts, pa.large_string())).dictionary_encode() for parts in (keys, labels)
    )
    kind, text = pc.extract_regex(label.dictionary, "(?s)^(?P<kind>[a-z]*):(?P<text>.*)$").flatten()
    return Attributes(
        offsets=offsets_of(np.concatenate(lengths)),
        name=name.indices.to_numpy(),
        value=label.indices.to_numpy(),
        names=name.dictionary,
        labels=label.dictionary,
        numbers=np.where(_is_one_of(kind, ("number", "text")), numbers_of_texts(text), MISSING),
        times=np.where(_is_one_of(kind, ("time", "text")), times_of_texts(text), MISSING),
    )


def _flatten(column: pa.MapArray) -> tuple[np.ndarray, pa.Array, pa.Array]:
    """Return how many attributes with a value each row has, int64[n], and their names and labels."""
    offsets = column.offsets.to_numpy()
    keys, items = (part.slice(offsets[0], offsets[-1] - offsets[0]) for part in (column.keys, column.items))
    texts = pc.struct_field(items, "value")
    kept = texts.is_valid()
    before = np.append(0, np.cumsum(kept.to_numpy(zero_copy_only=False)))
    kind, value, keys = (part.filter(kept) for part in (pc.struct_field(items, "type"), texts, keys))
    value = pc.if_else(pc.equal(kind, "json"), "", value)
    labels = pc.binary_join_element_wise(kind, value, ":")
    return np.diff(before[offsets - offsets[0]]), keys.cast(pa.large_string()), labels.cast(pa.large_string())


def _is_one_of(kind: pa.Array, kinds: Sequence[str]) -> np.ndarray:
    return pc.is_in(kind, pa.array(kinds)).to_numpy(zero_copy_only=False)


def keep_names(column: pa.MapArray, wanted: pa.Array, kind: pa.MapType) -> pa.MapArray:
    """Return a column `attributes` with the attributes of these names alone, as a column of the type `kind`."""
    offsets = column.offsets.to_numpy()
    keys, items = (part.slice(offsets[0], offsets[-1] - offsets[0]) for part in (column.keys, column.items))
    kept = pc.is_in(keys.cast(wanted.type), wanted)
    before = np.append(0, np.cumsum(kept.to_numpy(zero_copy_only=False)))[offsets - offsets[0]]
    offsets = pa.array(before.astype(np.int32))
    return pa.MapArray.from_arrays(offsets, keys.filter(kept), items.filter(kept).cast(kind.item_type), type=kind)


# Compiled conditions

HOLDS, FAILS = -1, -2
"""What follows a node instead of another one: the condition holds, or does not."""

NODE = np.dtype([("low", "i8"), ("high", "i8"), *((name, "i4") for name in ("plane", "below", "within", "above"))])


class Conditions(NamedTuple):
    """Compiled conditions, c of them.

    roots   int32[c]    first node of each
    nodes   NODE[n]     a range with both ends, the plane of the value, and what is next where the value is below,
                        within and above it: a node, HOLDS or FAILS
    planes  int64[p,2]  number of the name and class of each plane, in their order
    names   large_string[]  names of attributes
    labels  large_string[]  texts and truth values, as in Attributes
    """

    roots: np.ndarray
    nodes: np.ndarray
    planes: np.ndarray
    names: pa.Array
    labels: pa.Array


_Range = tuple[int, int]


def compile_conditions(conditions: Iterable[str]) -> Conditions:
    """Compile conditions in their canonical form."""
    parsed = [json.loads(text) for text in conditions]
    compiler = _Compiler(parsed)
    roots = [compiler.add(tests) for tests in parsed]
    planes = np.array(list(compiler.planes), np.int64).reshape(-1, 2)
    order, nodes = np.lexsort(planes.T[::-1]), np.array(list(compiler.nodes), NODE)
    nodes["plane"] = np.argsort(order)[nodes["plane"]]
    listed = (pa.array(list(texts), pa.large_string()) for texts in (compiler.names, compiler.labels))
    return Conditions(np.array(roots, np.int32), nodes, planes[order], *listed)


class _Compiler:
    """Numbers names, labels and planes, and adds the nodes of conditions; equal nodes are one."""

    def __init__(self, parsed: Sequence[Mapping[str, Any]]) -> None:
        self.nodes: dict[tuple[int, ...], int] = {}
        self.planes: dict[tuple[int, int], int] = {}
        self.names: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        values = (value for tests in parsed for test in tests.values() for value in _values_of(test))
        listed = list({value for value in values if isinstance(value, str)})
        self._times = dict(zip(listed, times_of_texts(pa.array(listed, pa.string())).tolist()))

    def add(self, tests: Mapping[str, Any]) -> int:
        """Add the nodes of a condition, and return the first."""
        following = HOLDS
        for name, test in reversed(list(tests.items())):
            number, failed = self.names.setdefault(name, len(self.names)), FAILS
            for kind, ranges in self._ranges(test).items():
                plane = self.planes.setdefault((number, kind), len(self.planes))
                failed = self._search(plane, sorted(set(ranges)), following, failed)
            following = failed
        return following

    def _ranges(self, test: Any) -> dict[int, list[_Range]]:
        """Return the disjoint ranges of each class of which a value must lie in one."""
        if isinstance(test, dict) and "exists" in test:
            return {PRESENCE: [(int(test["exists"]),) * 2]}
        if isinstance(test, dict):
            kind = TIME if isinstance(next(iter(test.values())), str) else NUMBER
            return {kind: [_range_of_bounds(test, self._times.__getitem__)]}
        ranges: dict[int, list[_Range]] = {}
        for value in _values_of(test):
            if isinstance(value, bool | str):
                label = f"text:{value}" if isinstance(value, str) else f"boolean:{'true' if value else 'false'}"
                number = self.labels.setdefault(label, len(self.labels))
                ranges.setdefault(LABEL, []).append((number, number))
                if isinstance(value, str) and self._times[value] != MISSING:
                    ranges.setdefault(MOMENT, []).append((self._times[value],) * 2)
            else:
                ranges.setdefault(NUMBER, []).append((_in_order(value),) * 2)
        return ranges

    def _search(self, plane: int, ranges: Sequence[_Range], within: int, failed: int) -> int:
        """Add the nodes that search for a value among ascending ranges, and return the first."""
        if not ranges:
            return failed
        middle = len(ranges) // 2
        below = self._search(plane, ranges[:middle], within, failed)
        above = self._search(plane, ranges[middle + 1 :], within, failed)
        return self.nodes.setdefault((*ranges[middle], plane, below, within, above), len(self.nodes))


def _values_of(test: Any) -> Iterable[Any]:
    return test.values() if isinstance(test, dict) else test if isinstance(test, list) else (test,)


def _range_of_bounds(bounds: Mapping[str, Any], time_of: Callable[[str], int] = _time_of) -> _Range:
    """Return the least and the greatest value within bounds, as a number of their class."""
    low, high = MISSING + 1, names.MAX_INT64
    for operator, bound in bounds.items():
        value = time_of(bound) if isinstance(bound, str) else _in_order(bound)
        if operator.startswith("g"):
            low = value + (operator == "gt")
        else:
            high = value - (operator == "lt")
    return low, high


def _in_order(number: float) -> int:
    """Return a number as an integer in the same order, as `numbers_of_texts` does."""
    (bits,) = struct.unpack("<q", struct.pack("<d", float(number) + 0.0))
    return int(bits ^ ((bits >> 63) & names.MAX_INT64))


_STEP = 1 << 14
"""Pairs that go through the trees together, so that their arrays stay in the caches of the processor."""

_MOST_CELLS = 1 << 24
"""Objects times planes up to which each has a place in a table."""


class Evaluation:
    """Evaluates conditions for objects: n of them, whose values are in planes, one for each name and class."""

    def __init__(self, conditions: Conditions, attributes: Attributes) -> None:
        name = _numbers_among(attributes.names, conditions.names, -1)[attributes.name]
        known = np.flatnonzero(name >= 0)
        is_used = np.zeros(len(attributes.labels), bool)
        is_used[attributes.value[known]] = True
        labels, numbers, times = (
            attributes.labels.filter(pa.array(is_used)),
            attributes.numbers[is_used],
            attributes.times[is_used],
        )
        label = _numbers_among(labels, conditions.labels, MISSING)
        moments = np.where(pc.starts_with(labels, "time:").to_numpy(zero_copy_only=False), times, MISSING)
        values = np.stack([label, numbers, times, moments, np.ones(len(label), np.int64)])
        # Each attribute is in the planes of its name, which are neighbours.
        of_plane, kind = conditions.planes.T
        borders = np.searchsorted(of_plane, np.arange(len(conditions.names) + 1))
        lengths = np.diff(borders)[name[known]]
        plane = concatenate_ranges(borders[name[known]], lengths)
        owner = np.repeat(np.arange(len(attributes.offsets) - 1), np.diff(attributes.offsets))
        self._planes, self._absent = len(kind), np.where(kind == PRESENCE, 0, MISSING)
        self._cells = np.repeat(owner[known] * self._planes, lengths) + plane
        self._known = values[kind[plane], np.repeat((np.cumsum(is_used) - 1)[attributes.value[known]], lengths)]
        self._table: np.ndarray | None = None
        objects = len(attributes.offsets) - 1
        if self._planes * objects <= _MOST_CELLS:
            self._table = np.tile(self._absent, objects)
            self._table[self._cells] = self._known
        else:
            order = np.argsort(self._cells)
            self._cells, self._known = self._cells[order], self._known[order]
        self._roots, self._nodes = conditions.roots, conditions.nodes.view(np.int64).reshape(-1, NODE.itemsize // 8)

    def _find(self, plane: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return the values of objects, by the place of their first plane, in planes: int64[m]."""
        cell = first + plane
        if self._table is not None:
            return self._table.take(cell)
        index, is_known = find_among(cell, self._cells)
        values = self._absent[plane]
        values[is_known] = self._known[index[is_known]]
        return values

    def holds(self, condition: np.ndarray, row: np.ndarray) -> np.ndarray:
        """Return for pairs of a condition and an object (int64[m] each) whether the object satisfies it: bool[m].

        With many conditions, fetching their nodes, which lie anywhere in memory, takes most of the time.
        """
        satisfied = np.empty(len(row), bool)
        for start in range(0, len(row), _STEP):
            part = slice(start, start + _STEP)
            satisfied[part] = self._follow(self._roots.take(condition[part]), row[part] * self._planes)
        return satisfied

    def _follow(self, node: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return whether nodes lead to HOLDS; first: where the planes of each object begin."""
        ends, active = node.copy(), np.arange(len(node))
        while len(active):
            at = self._nodes.take(node, axis=0)
            links = at.view(np.int32)
            value = self._find(links[:, _PLANE], first)
            side = (value >= at[:, 0]).view(np.int8) + (value > at[:, 1]).view(np.int8)
            node = links.ravel().take(np.arange(_PLANE + 1, links.size, links.shape[1]) + side)
            ends[active] = node
            goes_on = np.flatnonzero(node >= 0)
            node, first, active = node[goes_on], first[goes_on], active[goes_on]
        return ends == HOLDS


_PLANE = NODE.fields["plane"][1] // 4  # type: ignore[index]
"""Place of the plane in a node of integers of 32 bits; what is next comes after it."""


def _numbers_among(texts: pa.Array, known: pa.Array, otherwise: int) -> np.ndarray:
    """Return the place of each text among the known ones, or `otherwise`: int64[n]."""
    places = pc.index_in(texts, known).cast(pa.int64())
    return np.asarray(pc.fill_null(places, otherwise).to_numpy())
