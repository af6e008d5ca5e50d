"""Remove or alter rows of a table, by key, age or text: define the changes, find the rows, rewrite the files."""

import html
import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import ne
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import is_among
from pststream.base.arrow_columns import csr, lists, micros
from pststream.delivery.change_messages import ENTERED, LEFT, REPORT
from pststream.engine.running_engine import get_engine
from pststream.input.row_chunks import MAX_RAW_CHARACTERS
from pststream.settings import Settings
from pststream.state.data_files import DataFile, FileWriter, addresses_and_rows, list_data_files
from pststream.state.erasures import PairCounts
from pststream.state.home import Home
from pststream.state.slices import Slice, read_slices, split_into_tasks, whole_file
from pststream.state.tables import TABLES

TEXTS_OF_PATTERN = 200
"""Texts that one regular expression seeks."""

MAX_SOUGHT = 200
"""Of a longer text only so many characters are sought."""

_JSON_IN_HTML = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&'"})

_WORD_BEGIN, _WORD_END = "(?:^|[^0-9A-Za-z_])", "(?:$|[^0-9A-Za-z_])"


class RowChange:
    """A change of the rows of one table; travels pickled.

    table    name of the table
    columns  those that it reads
    """

    table: str
    columns: tuple[str, ...]

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have rows to change; here any file."""
        return True

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Return the rows that stay, some of them changed, and the number of rows that went or changed."""
        raise NotImplementedError


@dataclass(frozen=True)
class RowsByKey(RowChange):
    """Removes the rows whose column, the only one of `columns`, is one of `keys` (int64, ascending)."""

    table: str
    columns: tuple[str, ...]
    keys: np.ndarray

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have one of the keys."""
        return any_within(self.keys, file, self.columns[0])

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove the rows with these keys."""
        return _without(rows, is_among(rows.column(self.columns[0]).to_numpy(), self.keys))


@dataclass(frozen=True)
class RowsBelow(RowChange):
    """Removes the rows whose first one of `columns`, a number or a time in microseconds, is below `bound`."""

    table: str
    columns: tuple[str, ...]
    bound: int

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have a value below the bound."""
        return bool(file.low.get(self.columns[0], self.bound - 1) < self.bound)

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove the rows below the bound."""
        return _without(rows, micros(rows.column(self.columns[0])) < self.bound)


@dataclass(frozen=True)
class RejectsBelow(RowsBelow):
    """Removes the rejects of ingests below `bound`, and those of files of questions that were answered between these
    ingests, except the recent ones.

    recent: number of the last ingest before, a blank and the path, of each file of questions that is not old
    """

    recent: tuple[str, ...] = ()

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove the rejects."""
        number = rows.column(self.columns[0])
        file = pc.binary_join_element_wise(number.cast(pa.string()), rows.column("file"), " ")
        is_recent = pc.and_(
            pc.equal(rows.column("kind"), names.QUESTIONS), pc.is_in(file, pa.array(self.recent, pa.string()))
        )
        return _without(rows, (number.to_numpy() < self.bound) & ~is_recent.to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class AnswersOf(RowChange):
    """Removes the answers of questions that are these objects or these words."""

    object_ids: tuple[str, ...]
    words: tuple[str, ...]
    table: str = names.QUESTION_ANSWERS
    columns: tuple[str, ...] = ("object_id", "term")

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have one of the objects or words; ids of more than 4,096 bytes have no bounds."""
        return bool(self.words) or any_within(sorted(self.object_ids), file, "object_id")

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove the rows."""
        gone = np.zeros(rows.num_rows, bool)
        for name, erased in zip(self.columns, (self.object_ids, self.words)):
            is_erased = pc.is_in(rows.column(name), pa.array(erased, pa.string()))
            gone |= is_erased.to_numpy(zero_copy_only=False)
        return _without(rows, gone)


@dataclass(frozen=True)
class ReportsOf(RowChange):
    """Removes the rows of reports of `frequent_terms` that are of these subscriptions (ascending) or name these words.

    Other rows of the answers of subscriptions with memory stay: they have keys of objects, and no words.
    """

    subscription_keys: np.ndarray
    words: tuple[str, ...]
    table: str = names.ANSWER_LOG
    columns: tuple[str, ...] = ("subscription_key", "term")

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have one of the subscriptions or words."""
        return may_have_reports(file) and (
            bool(self.words) or any_within(self.subscription_keys, file, "subscription_key")
        )

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove the rows."""
        term = rows.column("term")
        gone = pc.is_in(term, pa.array(self.words, pa.string())).to_numpy(zero_copy_only=False)
        is_report = pc.is_valid(term).to_numpy(zero_copy_only=False)
        of_subscription = is_among(rows.column("subscription_key").to_numpy(), self.subscription_keys)
        return _without(rows, gone | (is_report & of_subscription))


@dataclass(frozen=True)
class ReportsBelow(RowsBelow):
    """Removes the reports of `frequent_terms` whose tick is below `bound`."""

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have a report with an earlier tick."""
        return may_have_reports(file) and super().may_change(file)

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove the rows."""
        is_report = pc.is_valid(rows.column("term")).to_numpy(zero_copy_only=False)
        return _without(rows, is_report & (micros(rows.column(self.columns[0])) < self.bound))


@dataclass(frozen=True)
class MatchesOf(RowChange):
    """Removes the rows of `matches` of these objects, and these subscriptions from the lists of the others.

    since: no object of these subscriptions has a ts (microseconds) before it
    """

    object_keys: np.ndarray
    subscription_keys: np.ndarray
    since: int
    table: str = names.MATCHES
    columns: tuple[str, ...] = ("object_key", "subscription_keys", "retracted", "batch_id")

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have one of the objects, or an object of the subscriptions."""
        return any_within(self.object_keys, file, "object_key") or (
            len(self.subscription_keys) > 0 and file.may_contain("ts", self.since, names.NEVER_US)
        )

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove rows, and list entries; a row without an entry goes too."""
        gone = is_among(rows.column("object_key").to_numpy(), self.object_keys)
        offsets, keys = csr(rows.column("subscription_keys"))
        erased = is_among(keys, self.subscription_keys)
        if not erased.any():
            return _without(rows, gone)
        lost = np.add.reduceat(np.append(erased, False).astype(np.int64), offsets[:-1])
        lost[offsets[:-1] == offsets[1:]] = 0
        lengths = np.diff(offsets) - lost
        shorter = lists(np.append(0, np.cumsum(lengths)), keys[~erased])
        rows = _with_column(rows, "subscription_keys", shorter)
        gone |= (lost > 0) & (lengths == 0)
        return _without(rows, gone)[0], int((gone | (lost > 0)).sum())


@dataclass(frozen=True)
class RejectsOf(RowChange):
    """Removes the rejects of rows with these ids: those whose raw value is an id, or names an id or a text, and those
    whose stored fields have the id.
    """

    kind: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    ingests_to: int
    table: str = names.REJECTS
    columns: tuple[str, ...] = ("kind", "field", "detail", "raw", "ingest_id", "record")

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have rejects of the ingests."""
        return file.may_contain("ingest_id", 0, self.ingests_to)

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove the rejects."""
        considered = pc.and_(
            pc.equal(rows.column("kind"), self.kind), pc.less_equal(rows.column("ingest_id"), self.ingests_to)
        )
        raw, detail = (rows.column(name).fill_null("") for name in ("raw", "detail"))
        # A raw value of one field is mostly short, and an id only as a whole; that of a row names the id somewhere.
        is_id = pc.is_in(raw, value_set=pa.array([one[:MAX_RAW_CHARACTERS] for one in self.ids], pa.string()))
        either = pc.binary_join_element_wise(raw, detail, "\n")
        named = self._finder.search(either.filter(considered))
        gone = np.zeros(rows.num_rows, bool)
        gone[np.flatnonzero(considered.to_numpy(zero_copy_only=False))] = named
        is_id = pc.or_(is_id, pc.is_in(pc.struct_field(rows.column("record"), 0), pa.array(self.ids, pa.string())))
        return _without(rows, (gone | is_id.to_numpy(zero_copy_only=False)) & considered.to_numpy(zero_copy_only=False))

    @cached_property
    def _finder(self) -> "TextFinder":
        return TextFinder(self.ids, self.texts)


@dataclass(frozen=True)
class LettersOf(RowChange):
    """Removes the dead letters of these subscriptions (owner, id) and objects, and those of reports of these words.

    A digest of other objects too loses the objects, a report with other words the words.
    """

    object_ids: frozenset[str]
    subscription_ids: frozenset[tuple[str, str]]
    words: frozenset[str] = frozenset()
    table: str = names.DEAD_LETTERS
    columns: tuple[str, ...] = ("owner", "subscription_id", "message", "message_id")

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Remove letters, objects of digests, and words of reports."""
        messages, changed = rows.column("message").to_pylist(), 0
        gone = np.zeros(rows.num_rows, bool)
        for index, subscription in enumerate(zip(*(rows.column(name).to_pylist() for name in self.columns[:2]))):
            body = json.loads(messages[index] or "{}")
            stays = self._without_erased(body)
            if subscription in self.subscription_ids or stays is None:
                gone[index] = True
            elif stays != body:
                changed += 1
                messages[index] = json.dumps(stays, separators=(",", ":"))
        if changed:
            rows = _with_column(rows, "message", pa.array(messages, pa.string()))
        return _without(rows, gone)[0], int(gone.sum()) + changed

    def _without_erased(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return what stays of a message; None: nothing."""
        if body.get("object", {}).get("object_id") in self.object_ids:
            return None
        if listed := body.get("objects", []):
            stay = [one for one in listed if one["object_id"] not in self.object_ids]
            return {**body, "objects": stay, "count": body["count"] - len(listed) + len(stay)} if stay else None
        if body.get("kind") == REPORT:
            sides = {name: [one for one in body[name] if one["term"] not in self.words] for name in (LEFT, ENTERED)}
            is_left = any(sides.values()) or not any(body[name] for name in sides)
            return {**body, **sides} if is_left else None
        return body


@dataclass(frozen=True)
class WordsOf(RowChange):
    """Sets the words of these terms (int64, ascending) in `vocabulary` to null; the counts of the terms stay."""

    terms: np.ndarray
    table: str = names.VOCABULARY
    columns: tuple[str, ...] = ("term_id", "term")

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have one of the terms."""
        return any_within(self.terms, file, "term_id")

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Set the words to null."""
        shown = pc.is_valid(rows.column("term")).to_numpy(zero_copy_only=False)
        erased = is_among(rows.column("term_id").to_numpy(), self.terms) & shown
        words = pc.if_else(pa.array(erased), pa.scalar(None, pa.string()), rows.column("term"))
        return _with_column(rows, "term", words), int(erased.sum())


@dataclass(frozen=True)
class SentencesOf(RowChange):
    """Deletes the sentences in a column of lists that name what is erased; suites quote values of rows."""

    table: str
    columns: tuple[str, ...]
    finder: "TextFinder"

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Delete the sentences; the rows and their other sentences stay."""
        (column,) = self.columns
        sentences = rows.column(column)
        named = iter(self.finder.search(pc.list_flatten(sentences)).tolist())
        before = sentences.to_pylist()
        after = [[text for text in one if not next(named)] for one in before]
        return _with_column(rows, column, pa.array(after, sentences.type)), sum(map(ne, before, after))


@dataclass(frozen=True)
class PositionsIn(RowChange):
    """Sets the delivery positions in these batches of each sink to the beginning of the batch."""

    batches: tuple[tuple[str, int], ...]
    table: str = names.DELIVERIES
    columns: tuple[str, ...] = ("sink", "batch_id", "position", "complete")

    def may_change(self, file: DataFile) -> bool:
        """Whether a file may have a row of these batches."""
        return any(file.may_contain("batch_id", batch, batch) for _, batch in self.batches)

    def apply(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """Set the positions to 0."""
        position = rows.column("position").to_numpy().copy()
        keys = zip(rows.column("sink").to_pylist(), rows.column("batch_id").to_pylist())
        mine = np.array([key in self.batches for key in keys], bool) & (position > 0)
        position[mine] = 0
        return _with_column(rows, "position", pa.array(position)), int(mine.sum())


class TextFinder:
    """Finds texts in other texts, as words: not inside a longer word or number; also as JSON and HTML write them.

    whole       texts to find
    beginnings  beginnings of texts, which may go on
    """

    def __init__(self, whole: Iterable[str], beginnings: Iterable[str] = ()) -> None:
        short = {text for text in whole if 0 < len(text) <= MAX_SOUGHT}
        cut = {text[:MAX_SOUGHT] for text in (*whole, *beginnings) if text} - short
        self._patterns = [*_patterns(short, _WORD_END), *_patterns(cut, "")]

    def search(self, texts: pa.Array) -> np.ndarray:
        """Return which texts have one of those sought: bool[n]."""
        has = np.zeros(len(texts), bool)
        for pattern in self._patterns:
            has |= pc.match_substring_regex(texts, pattern).fill_null(False).to_numpy(zero_copy_only=False)
        return has


def _patterns(texts: Iterable[str], end: str) -> list[str]:
    """Return patterns that find the texts as they are, as JSON writes them, alone and in HTML, and as HTML does."""
    spellings: set[str] = set()
    for text in texts:
        json_texts = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        escaped = html.escape(text)
        spellings |= {text, escaped, escaped.replace("&quot;", "&#34;").replace("&#x27;", "&#39;"), *json_texts}
        spellings |= {one.translate(_JSON_IN_HTML) for one in json_texts}
    spelled = sorted(spellings)
    groups = [spelled[at : at + TEXTS_OF_PATTERN] for at in range(0, len(spelled), TEXTS_OF_PATTERN)]
    return [f"{_WORD_BEGIN}(?:{'|'.join(map(re.escape, group))}){end}" for group in groups]


def may_have_reports(file: DataFile) -> bool:
    """Whether a file of `answer_log` may have rows of reports, the only ones with a count."""
    return file.partition.get("part") == "change" and file.nulls.get("count") != file.rows


def any_between(ordered: Sequence[Any] | np.ndarray, low: Any, high: Any) -> bool:
    """Whether one of the ordered values is in [low, high]."""
    index = bisect_left(ordered, low)
    return bool(index < len(ordered) and ordered[index] <= high)


def any_within(ordered: Sequence[Any] | np.ndarray, file: DataFile, column: str) -> bool:
    """Whether a file may have one of the ordered values in a column."""
    if not len(ordered):
        return False
    return any_between(ordered, file.low.get(column, ordered[0]), file.high.get(column, ordered[-1]))


def _with_column(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """Return the rows with other values in a column, whose type stays."""
    index = rows.schema.get_field_index(name)
    field = rows.schema.field(index)
    return rows.set_column(index, field, values.cast(field.type))


def _without(rows: pa.RecordBatch, gone: np.ndarray) -> tuple[pa.RecordBatch, int]:
    count = int(gone.sum())
    return (rows.filter(pa.array(~gone)), count) if count else (rows, 0)


@dataclass(frozen=True)
class FoundRows:
    """The files with rows to change, and how many rows these are; pairs: of `matches`."""

    files: list[DataFile]
    emptied: frozenset[str]
    rows: int
    pairs: PairCounts


@dataclass(frozen=True)
class _Counted:
    """Counts of a task: by address of the file, rows to change and rows that stay; the pairs that batches lose."""

    changed: Counter[str]
    left: Counter[str]
    pairs: PairCounts


def find_rows(home: Home, settings: Settings, change: RowChange) -> FoundRows:
    """Count the rows that a change concerns, by its columns of the files whose bounds allow such rows."""
    files = [file for file in list_data_files(home, change.table) if change.may_change(file)]
    addresses = addresses_and_rows(home, change.table, files)
    tasks = split_into_tasks(addresses)
    counted = get_engine(settings, home).run_tasks(tasks, partial(_count, change)) if tasks else []
    changed = sum((one.changed for one in counted), Counter[str]())
    left = sum((one.left for one in counted), Counter[str]())
    of_files = [(file, address) for file, (address, _) in zip(files, addresses) if changed[address]]
    emptied = frozenset(file.path for file, address in of_files if not left[address])
    return FoundRows(
        [file for file, _ in of_files], emptied, sum(changed.values()), _sum_pairs([one.pairs for one in counted])
    )


def rewrite_files(home: Home, settings: Settings, change: RowChange, affected: FoundRows) -> list[DataFile]:
    """Write the files with rows to change again, and return the new files, which are not yet committed.

    A file of which no row is left is not written.
    """
    tasks = [file for file in affected.files if file.path not in affected.emptied]
    rewrite = partial(_rewrite, change, home.table(change.table))
    written = get_engine(settings, home).run_tasks(tasks, rewrite) if tasks else []
    return [file for file in written if file is not None]


def _count(change: RowChange, slices: tuple[Slice, ...]) -> _Counted:
    changed, left, parts = Counter[str](), Counter[str](), list[PairCounts]()
    for one in slices:
        for rows in read_slices([one], list(change.columns)):
            stay, count = change.apply(rows)
            changed[one.path] += count
            left[one.path] += stay.num_rows
            if count and change.table == names.MATCHES:
                parts.append(_lost_pairs(rows, stay))
    return _Counted(changed, left, _sum_pairs(parts))


def _sum_pairs(parts: Sequence[PairCounts]) -> PairCounts:
    columns = ("batch_ids", "pairs", "retractions")
    none = np.empty(0, np.int64)
    return PairCounts.sum(*(np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in columns))


def _lost_pairs(before: pa.RecordBatch, after: pa.RecordBatch) -> PairCounts:
    sides = []
    for rows, sign in ((before, 1), (after, -1)):
        lengths = sign * np.diff(csr(rows.column("subscription_keys"))[0])
        retracted = rows.column("retracted").to_numpy(zero_copy_only=False).astype(bool)
        batch_ids = rows.column("batch_id").to_numpy()
        sides.append(PairCounts(batch_ids, np.where(retracted, 0, lengths), np.where(retracted, lengths, 0)))
    counts = _sum_pairs(sides)
    lost = (counts.pairs != 0) | (counts.retractions != 0)
    return PairCounts(counts.batch_ids[lost], counts.pairs[lost], counts.retractions[lost])


def _rewrite(change: RowChange, root: str, file: DataFile) -> DataFile | None:
    writer = FileWriter(root, TABLES[change.table].schema, file.partition)
    for rows in read_slices([whole_file(f"{root}/{file.path}")], writer.schema.names):
        writer.write(change.apply(rows)[0])
    return writer.close()
