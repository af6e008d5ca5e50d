"""Define the kind `frequent_terms`: at each step, the k terms that the most objects of a region have in a window.

Source: SSTD, Definition 3, the continuous version: window T, step. Departures:

- reports are made at the multiples of the step since 1970, by the times of the objects. The paper counts steps from the
  clock;
- a window does not have its first moment: tick - T < `ts` <= tick. So windows as long as the step share no object;
- a term counts once for each object that has it;
- a late object corrects the reports that count it. The paper does not speak of late objects;
- the duration of a query is the field `expires_at`;
- of scripts without blanks pairs of characters count, and `stop_words` do not;
- the first tick without a word after one with words has an empty report.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from pststream.queries.decode_json import decode_json
from pststream.queries.kinds.answer_query import AnswerQuery, duration_text, kind_with_answers, window_field
from pststream.queries.kinds.contract import (
    MAX_STOP_BYTES,
    STEP_US,
    STOP_WORDS,
    WINDOW_US,
    Description,
    FailedCondition,
    FieldError,
    K,
    ParsedQuestion,
    QuestionKind,
    QuestionLimits,
    RequestLimits,
    StoredObject,
    TermReports,
    Validity,
)
from pststream.queries.kinds.fields import (
    join_columns,
    parse_duration,
    parse_duration_column,
    parse_k_column,
    parse_k_field,
    parse_region_field,
    parse_required_window,
    parse_step_field,
    parse_window_column,
    parse_window_field,
)
from pststream.queries.raw_fields import ParsedColumns, RawField, RawFields
from pststream.queries.shapes import registry as shapes
from pststream.queries.shapes.contract import Region
from pststream.queries.text.words import is_one_of_a_run, reported_words, tokenize

# Reports, without the kernels

REGION, WORDS, CREATED_AT, END, WINDOW = "region", "words", "created_at", "end", "window"
CONDITIONS = (REGION, WORDS, CREATED_AT, END, WINDOW)
"""Conditions under which a report counts an object, in the order in which they are checked."""


@dataclass(frozen=True)
class RegionQuery(AnswerQuery):
    """The query of a region whose terms are counted."""

    region: Region = field(kw_only=True)

    def find_fault(self) -> str | None:
        """Return nothing: the region is stored once."""
        return None

    def first_failure(self, stored: StoredObject, validity: Validity) -> FailedCondition | None:
        """Test the point and the words of an object; the ticks depend on stream time too."""
        if not shapes.contains(self.region, stored.lon, stored.lat):
            away = shapes.outside(self.region, stored.lon, stored.lat)
            return FailedCondition(REGION, f"the object lies outside the region: {away}")
        if not self.counted_words(stored):
            others = ", but for stop words" if "stop_words" in self.description else ""
            return FailedCondition(WORDS, f"the object has no word to count{others}")
        return None

    def counted_words(self, stored: StoredObject) -> set[str]:
        """Return the words of an object that reports count."""
        return reported_words(stored.parts).difference(self.description.get("stop_words", ()))


def ticks(asked: Description, ts: int, created_at: int, end_at: int | None) -> range:
    """Return the ticks m with `created_at` <= m < end and m - window < ts <= m; all times in microseconds."""
    step, window = parse_duration("step", asked["step"]), parse_duration("window", asked["window"])
    until = ts + window if end_at is None else min(ts + window, end_at)
    first = -(-max(ts, created_at) // step) * step
    return range(first, max(first, until), step)


def last_tick(step: int, created_at: int, end_at: int | None, stream_time: int) -> int | None:
    """Return the last tick that stream time has reached while a subscription lived, whose report is its answer.

    None if there is none; all times in microseconds.
    """
    number = stream_time // step if end_at is None else min(stream_time // step, -(-end_at // step) - 1)
    return number * step if number * step >= created_at else None


REPORTS = TermReports(ticks)

# Requests

FIELDS = frozenset({"k", "window", "step", STOP_WORDS.name, *shapes.request_fields()})
COLUMNS = (*shapes.REQUEST_COLUMNS, K, WINDOW_US, STEP_US, STOP_WORDS)


def parse_request(record: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Parse the fields of a request into the values of COLUMNS; raises FieldError."""
    region = parse_region_field(record, limits.region)
    k = parse_k_field(record, limits.max_k)
    window, step = parse_required_window(record, counts_objects=False).micros or 0, parse_step_field(record)
    if window > step * limits.max_window_steps:
        detail = f"a window has more than {limits.max_window_steps:,} steps; the setting max_window_steps bounds them"
        raise FieldError("step", "too_many_steps", record["step"], detail)
    columns = {"k": k, "window_us": window, "step_us": step, STOP_WORDS.name: parse_stop_words_field(record)}
    return {**columns, **shapes.to_columns(region)}


def parse_columns(fields: RawFields, limits: RequestLimits) -> ParsedColumns:
    """Parse the fields of many requests into COLUMNS."""
    window = parse_window_column(fields["window"], counts_objects=False)
    step, read = parse_duration_column(fields["step"])
    parts = (
        shapes.read_regions(fields, limits.region),
        parse_k_column(fields["k"], limits.max_k),
        window,
        ParsedColumns({STEP_US.name: pa.array(step)}, read),
        _parse_stop_words_column(fields[STOP_WORDS.name]),
    )
    parsed = join_columns(parts)
    few = _within_steps(window.columns[WINDOW_US.name].fill_null(0).to_numpy(), step, limits.max_window_steps)
    return ParsedColumns(parsed.columns, parsed.parsed & few)


def parse_stop_words_field(record: Mapping[str, Any]) -> str | None:
    """Read the field `stop_words`: a language, a list of words, or this list as JSON; return words with blanks between.

    They ascend. None without the field or any word. Of two characters of scripts without blanks a word is their pair.
    Raises FieldError, also for any other word that texts are split at.
    """
    given = record.get(STOP_WORDS.name)
    if given is None or given == "":
        return None
    if isinstance(given, str) and not given.lstrip().startswith("["):
        return _words_of_language(given)
    try:
        listed = decode_json(given) if isinstance(given, str) else given
    except ValueError as error:
        _refuse(given, f"the list cannot be read: {error}")
    if not isinstance(listed, list):
        _refuse(given, "neither a language nor a list of words")
    words = " ".join(sorted({_stop_word(given, word) for word in listed}))
    if (size := len(words.encode())) > MAX_STOP_BYTES:
        _refuse(given, f"the words have {size:,} bytes, more than {MAX_STOP_BYTES:,}")
    return words or None


def _refuse(given: Any, detail: str) -> NoReturn:
    raise FieldError(STOP_WORDS.name, "unreadable_stop_words", given, f"{STOP_WORDS.name}: {detail}")


_LISTS = Path(__file__).parents[1] / "text" / "stop-words.json"


@cache
def stop_words_by_language() -> dict[str, dict[str, str]]:
    """Return name and words (as STOP_WORDS has them) of each language with a list, by its code of ISO 639-1."""
    lists: dict[str, dict[str, str]] = json.loads(_LISTS.read_bytes())
    return lists


def _words_of_language(given: str) -> str:
    lists, asked = stop_words_by_language(), given.strip().casefold()
    codes = {name: code for code, of in lists.items() for name in (code, of["name"].casefold())}
    if asked in codes:
        return lists[codes[asked]]["words"]
    near = get_close_matches(asked, codes, 1)
    known = ", ".join(f"{code} ({of['name']})" for code, of in lists.items())
    advice = f"did you mean {near[0]}? " if near else ""
    _refuse(given, f"{given[:40]!r} is no known language; {advice}known: {known}; a list has any words")


def _stop_word(given: Any, word: Any) -> str:
    words = tokenize(word) if isinstance(word, str) else []
    if len(words) == 2 and all(map(is_one_of_a_run, words)):
        return "".join(words)
    if not words:
        _refuse(given, f"{str(word)[:40]!r} has no word")
    if len(words) > 1:
        counted = ", ".join(sorted(reported_words((word,))))[:80]
        _refuse(given, f"{word[:40]!r} is not one word of reports but {counted}; list those to leave out")
    return words[0]


def _parse_stop_words_column(field: RawField) -> ParsedColumns:
    """Parse the languages of requests; lists are left to the row parser."""
    texts = field.texts().dictionary_encode()
    words: list[str | None] = [None]
    for language in texts.dictionary.to_pylist():
        try:
            words.append(parse_stop_words_field({STOP_WORDS.name: language}))
        except FieldError:
            words.append(None)
    of_row = pa.array(words, pa.string()).take(pa.array(texts.indices.fill_null(-1).to_numpy() + 1))
    return ParsedColumns({STOP_WORDS.name: of_row}, ~field.filled | of_row.is_valid().to_numpy(zero_copy_only=False))


def check_starts(columns: Mapping[str, pa.Array], micros: np.ndarray, limits: RequestLimits) -> np.ndarray:
    """Return whether `check_start` raises no error for the rows of parsed columns: bool[n]; `micros` int64[n]."""
    return _within_steps(micros, columns[STEP_US.name].to_numpy(), limits.max_past_steps)


def _within_steps(micros: np.ndarray, step: np.ndarray, most: int) -> np.ndarray:
    """Return whether durations have at most `most` steps: micros <= step * most, whose product may be too large."""
    return -(-micros // np.maximum(step, 1)) <= most


def check_start(values: Mapping[str, Any], micros: int, limits: RequestLimits) -> None:
    """Raise FieldError if more ticks than allowed lie between `created_at` and the ingest, `micros` later."""
    if micros > values["step_us"] * limits.max_past_steps:
        detail = f"more than {limits.max_past_steps:,} steps have passed since; the setting max_past_steps bounds them"
        raise FieldError("created_at", "too_many_steps", "", detail)


def describe(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request fields of a stored row, the region below `region`."""
    return {
        "region": shapes.to_json(shapes.from_columns(row)),
        "k": row["k"],
        "window": window_field(row),
        "step": duration_text(row["step_us"]),
        **({STOP_WORDS.name: row[STOP_WORDS.name].split(" ")} if row[STOP_WORDS.name] else {}),
    }


NAME = "frequent_terms"

FREQUENT_TERMS = kind_with_answers(
    NAME,
    describe,
    COLUMNS,
    CONDITIONS,
    fields=FIELDS,
    parse_request=parse_request,
    read_query=lambda row: RegionQuery(describe(row), region=shapes.from_columns(row)),
    parse_columns=parse_columns,
    check_start=check_start,
    check_starts=check_starts,
    answers=REPORTS,
)
"""Questions about stored objects make its reports, so no insertion has a piece."""

# Questions


def parse_question(record: Mapping[str, Any], limits: QuestionLimits) -> ParsedQuestion:
    """Parse the fields of a question; raises FieldError."""
    return ParsedQuestion(
        region=parse_region_field(record, limits.request.region),
        k=parse_k_field(record, limits.max_k),
        window=parse_window_field(record, counts_objects=False),
        stop_words=parse_stop_words_field(record),
    )


FREQUENT_TERMS_QUESTION = QuestionKind(
    NAME,
    frozenset({"k", "window", STOP_WORDS.name, *shapes.request_fields()}),
    "the most frequent words of a region",
    parse_question,
)
