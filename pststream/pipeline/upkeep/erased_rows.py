"""Find rows to erase: keys of objects and subscriptions by their ids, ids by a condition, words no other row has."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.base.arrow_columns import csr, micros
from pststream.base.errors import UsageError
from pststream.engine.running_engine import get_engine
from pststream.pipeline.upkeep.row_changes import any_between, may_have_reports
from pststream.queries.text.tokenizer import term_id
from pststream.settings import Settings
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks
from pststream.tables.delta_tables import QueryError, query_table, read_table

TEXT_BEGINNING = 64
"""Characters of an erased text by which rejects and pages are searched for it."""

MIN_TEXT = 16
"""Shorter texts are not sought: other rows may have them too."""

EXAMPLE = """--where "text LIKE '%word%' AND ts < '2026-01-01'", with the columns of `objects`"""


@dataclass(frozen=True)
class _Log:
    """Columns of a log: the id, the position, the key by which other tables name the row, time, texts, terms."""

    name: str
    id: str
    position: str
    key: str
    time: str
    texts: tuple[str, ...]
    terms: str


LOGS = {
    "objects": _Log(names.OBJECTS, "object_id", "object_key", "object_key", "ts", ("text",), "terms"),
    "requests": _Log(
        names.REQUESTS,
        "subscription_id",
        "request_key",
        "subscription_key",
        "effective_at",
        ("keywords", "payload"),
        "clauses",
    ),
}


def _none() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class FoundKeys:
    """What the rows of some ids have.

    keys   int64[n]  ascending: object_key, or subscription_key
    files  int64[n]  numbers of the input files that the rows came from, ascending
    terms  int64[n]  ascending: terms of the rows
    since            least time of the rows, microseconds
    texts            beginnings of their texts, keywords and payloads
    """

    keys: np.ndarray = field(default_factory=_none)
    files: np.ndarray = field(default_factory=_none)
    terms: np.ndarray = field(default_factory=_none)
    since: int = names.NEVER_US
    texts: frozenset[str] = frozenset()


def select_ids(home: Home, condition: str) -> list[str]:
    """Return the ids of the objects for which an SQL condition is true, ascending. Raises UsageError."""
    query = f"SELECT DISTINCT object_id FROM objects WHERE ({condition}\n)"
    try:
        parts = query_table(home.table(names.OBJECTS), names.OBJECTS, query)
    except QueryError as error:
        raise UsageError(f"--where {condition}: {error}", EXAMPLE) from None
    return sorted(parts.column(0).to_pylist())


def find_keys(home: Home, settings: Settings, kind: str, ids: tuple[str, ...], ingests_to: int) -> FoundKeys:
    """Return what the rows of these ids have, up to an ingest. Reads the ids of the files whose bounds allow them."""
    if not ids:
        return FoundKeys()
    log, ordered = LOGS[kind], sorted(ids)
    files = [
        file
        for file in list_data_files(home, log.name)
        if any_between(ordered, file.low.get(log.id, ordered[0]), file.high.get(log.id, ordered[-1]))
    ]
    tasks = split_into_tasks(addresses_and_rows(home, log.name, files))
    parts = get_engine(settings).run_tasks(tasks, partial(_find, kind, ids, ingests_to)) if tasks else []
    return _joined(parts)


def _find(kind: str, ids: tuple[str, ...], ingests_to: int, slices: tuple[Slice, ...]) -> FoundKeys:
    log, wanted = LOGS[kind], pa.array(ids, pa.string())
    parts = []
    for one in slices:
        for rows in read_slices([one], [log.id, log.position, "ingest_id"]):
            named = pc.and_(
                pc.is_in(rows.column(log.id), value_set=wanted), pc.less_equal(rows.column("ingest_id"), ingests_to)
            )
            positions = np.sort(rows.filter(named).column(log.position).to_numpy())
            if len(positions):
                parts.append(_details(log, one, positions))
    return _joined(parts)


def _joined(parts: list[FoundKeys]) -> FoundKeys:
    return FoundKeys(
        _distinct([part.keys for part in parts]),
        _distinct([part.files for part in parts]),
        _distinct([part.terms for part in parts]),
        min((part.since for part in parts), default=names.NEVER_US),
        frozenset().union(*(part.texts for part in parts)),
    )


def _details(log: _Log, one: Slice, positions: np.ndarray) -> FoundKeys:
    """Read what the rows at these positions (ascending) of a slice have."""
    within = KeyRange(log.position, int(positions[0]) - 1, int(positions[-1]))
    columns = list(dict.fromkeys([log.position, log.key, log.time, *log.texts, log.terms]))
    parts = [
        rows.filter(pa.array(is_among(rows.column(log.position).to_numpy(), positions)))
        for rows in read_slices([one], columns, within)
    ]
    rows = pa.concat_batches(parts)
    texts = (text for name in log.texts for text in rows.column(name).to_pylist() if text and len(text) >= MIN_TEXT)
    return FoundKeys(
        rows.column(log.key).to_numpy(),
        positions >> names.ROW_BITS,
        terms_of_rows(rows.column(log.terms)),
        int(micros(rows.column(log.time)).min()),
        frozenset(text[:TEXT_BEGINNING] for text in texts),
    )


def terms_of_rows(column: pa.Array) -> np.ndarray:
    """Return the terms in a column of lists of terms, or of clauses: int64, in any order."""
    _, values = csr(column) if not pa.types.is_list(column.type.value_type) else csr(column.flatten())
    return values


def words_of_terms(home: Home, settings: Settings, terms: np.ndarray) -> dict[int, str]:
    """Return the words that `vocabulary`, `question_answers` and the reports of `answer_log` show for these terms."""
    shown = pds.field("term").is_valid() & pds.field("term_id").isin(pa.array(terms))
    rows = read_table(home.table(names.VOCABULARY), ["term_id", "term"], shown)
    words = dict(zip(rows.column("term_id").to_pylist(), rows.column("term").to_pylist()))
    reports = [file for file in list_data_files(home, names.ANSWER_LOG) if may_have_reports(file)]
    files = addresses_and_rows(home, names.ANSWER_LOG, reports)
    files += addresses_and_rows(home, names.QUESTION_ANSWERS, list_data_files(home, names.QUESTION_ANSWERS))
    tasks = split_into_tasks(files) if len(terms) else []
    for shown_words in get_engine(settings).run_tasks(tasks, partial(_words_of_answers, terms)) if tasks else []:
        words |= shown_words
    return words


def _words_of_answers(terms: np.ndarray, slices: tuple[Slice, ...]) -> dict[int, str]:
    """Return those of the terms whose words rows of answers show, with the words."""
    words: dict[int, str] = {}
    for rows in read_slices(slices, ["term"]):
        ids = {word: term_id(word) for word in pc.unique(rows.column("term").drop_null()).to_pylist()}
        shown = is_among(np.array(list(ids.values()), np.int64), terms)
        words |= {ids[word]: word for word, is_shown in zip(ids, shown.tolist()) if is_shown}
    return words


def terms_of_others(home: Home, settings: Settings, terms: np.ndarray, erased: dict[str, np.ndarray]) -> np.ndarray:
    """Return which of these terms (ascending) other rows of the logs have: int64, ascending.

    erased: by kind, keys of the rows to erase, ascending
    """
    parts = []
    for kind, log in LOGS.items():
        files = addresses_and_rows(home, log.name, list_data_files(home, log.name))
        tasks = split_into_tasks(files) if len(terms) else []
        parts += get_engine(settings).run_tasks(tasks, partial(_others, kind, terms, erased[kind])) if tasks else []
    return _distinct(parts)


def _others(kind: str, terms: np.ndarray, erased: np.ndarray, slices: tuple[Slice, ...]) -> np.ndarray:
    log, seen = LOGS[kind], np.zeros(len(terms), bool)
    for rows in read_slices(slices, [log.key, log.terms]):
        stay = ~is_among(rows.column(log.key).to_numpy(), erased)
        values = terms_of_rows((rows if stay.all() else rows.filter(pa.array(stay))).column(log.terms))
        seen[np.searchsorted(terms, values[is_among(values, terms)])] = True
        if seen.all():
            break
    return terms[seen]


def _distinct(parts: list[np.ndarray]) -> np.ndarray:
    return distinct_values(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))
