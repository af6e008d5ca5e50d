"""Erase objects and subscriptions by their ids, with everything derived from them (`pststream erase`).

The ids are first written to a file of the home. Then each table loses its rows, derived ones first, so that no reader
meets a match without its object. A run that was killed is finished by the next `erase` or `maintain`: rows that are
gone already are not found again. `state/erasures.py` records what went, without the ids.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values, is_among
from pststream.base.arrow_columns import BREAKS, csr, micros
from pststream.base.errors import QuestionsBusy, SinkBusy, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.engine.running_engine import get_engine
from pststream.input.run_suites import LONGEST_VALUE
from pststream.matching.segments import SegmentCache
from pststream.matching.verified_clauses import TEXT_COLUMNS
from pststream.pipeline.batch.micro_batch import finish_interrupted_work
from pststream.pipeline.ingest import retry_rejects
from pststream.pipeline.ingest.deduplicate import ids_of
from pststream.pipeline.ingest.ingest_transaction import clear_staging
from pststream.pipeline.questions.question_ledger import commit_unfinished_answers
from pststream.pipeline.upkeep.pairs_table import GOLD_PAIRS, check_gold, count_pairs_of, erase_pairs, locked_pairs
from pststream.pipeline.upkeep.row_changes import (
    AnswersOf,
    LettersOf,
    MatchesOf,
    PositionsIn,
    RejectsOf,
    ReportsOf,
    RowChange,
    RowsByKey,
    SentencesOf,
    TextFinder,
    WordsOf,
    any_within,
    find_rows,
    may_have_reports,
    rewrite_files,
)
from pststream.pipeline.upkeep.search_quarantine import find_files_that_name
from pststream.queries.kinds.contract import split_text
from pststream.queries.text.phrases import PhraseTable, split_texts
from pststream.queries.text.tokenizer import phrase_id, term_id
from pststream.queries.text.words import is_one_of_a_run, reported_words, tokenize
from pststream.settings import Settings
from pststream.state import erasures, fetched_files, quarantine, scratch
from pststream.state.crash_points import crash_point
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.deliveries import read_progress
from pststream.state.erasures import ERASE, PendingErasure, Removal
from pststream.state.home import RUNNER_WAIT_SECONDS, Home
from pststream.state.slices import KeyRange, Slice, read_slices, split_into_tasks
from pststream.tables.delta_tables import QueryError, TableReader, query_table, read_table
from pststream.tables.ledgers import Ledger
from pststream.tables.owners import BETWEEN_IDS, ID_COLUMNS, resolve_owners

TEXT_BEGINNING = 64
"""Characters of an erased text by which rejects and pages are searched for it."""

MIN_TEXT = 16
"""Shorter texts are not sought: other rows may have them too."""

EXAMPLE = """--where "text LIKE '%word%' AND ts < '2026-01-01'", with the columns of `objects`"""


@dataclass(frozen=True)
class _Log:
    """Columns of a log: the id, the position, the key by which other tables name the row, time, texts, terms, and those
    of the text of an object.
    """

    name: str
    ids: tuple[str, ...]
    position: str
    key: str
    time: str
    texts: tuple[str, ...]
    terms: str
    text: tuple[str, ...] = ()


LOGS = {
    "objects": _Log(names.OBJECTS, ("object_id",), "object_key", "object_key", "ts", ("text",), "terms", TEXT_COLUMNS),
    "requests": _Log(
        names.REQUESTS,
        ID_COLUMNS,
        "request_key",
        "subscription_key",
        "effective_at",
        ("keywords", "payload", "conditions"),
        "clauses",
    ),
}


@dataclass(frozen=True)
class FoundKeys:
    """What the rows of some ids have.

    keys   int64[n]  ascending: object_key, or subscription_key
    files  int64[n]  numbers of the input files that the rows came from, ascending
    terms  int64[n]  ascending: terms of the rows, and pairs of characters that reports count
    since            least time of the rows, microseconds
    texts            beginnings of their texts, keywords, payloads and conditions
    """

    keys: np.ndarray
    files: np.ndarray
    terms: np.ndarray
    since: int
    texts: frozenset[str]


KeysByKind = dict[str, FoundKeys]
"""What the rows of the ids of an erasure have, by the kinds of LOGS."""


def select_ids(home: Home, condition: str) -> list[str]:
    """Return the ids of the objects for which an SQL condition is true, ascending. Raises UsageError."""
    query = f"SELECT DISTINCT object_id FROM objects WHERE ({condition}\n)"
    try:
        parts = query_table(home.table(names.OBJECTS), names.OBJECTS, query)
    except QueryError as error:
        raise UsageError(f"--where {condition}: {error}", EXAMPLE) from None
    return sorted(parts.column(0).to_pylist())


def find_keys(home: Home, settings: Settings, kind: str, ids: tuple[str, ...], ingests_to: int) -> FoundKeys:
    """Return what the rows of these ids (`ids_of`) have, up to an ingest; reads the files whose bounds allow them."""
    log, ordered = LOGS[kind], sorted(ids)
    files = [file for file in list_data_files(home, log.name) if any_within(ordered, file, log.ids[-1])]
    tasks = split_into_tasks(addresses_and_rows(home, log.name, files))
    parts = get_engine(settings, home).run_tasks(tasks, partial(_find_ids, kind, ids, ingests_to)) if tasks else []
    return _joined(parts)


def _find_ids(kind: str, ids: tuple[str, ...], ingests_to: int, slices: tuple[Slice, ...]) -> FoundKeys:
    log, wanted = LOGS[kind], pa.array(ids, pa.string())
    parts = []
    for one in slices:
        for rows in read_slices([one], [*log.ids, log.position, "ingest_id"]):
            named = pc.and_(
                pc.is_in(ids_of(rows, log.ids), value_set=wanted), pc.less_equal(rows.column("ingest_id"), ingests_to)
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
    columns = list(dict.fromkeys([log.position, log.key, log.time, *log.texts, log.terms, *log.text]))
    parts = [
        rows.filter(pa.array(is_among(rows.column(log.position).to_numpy(), positions)))
        for rows in read_slices([one], columns, within)
    ]
    rows = pa.concat_batches(parts)
    texts = (text for name in log.texts for text in rows.column(name).to_pylist() if text and len(text) >= MIN_TEXT)
    return FoundKeys(
        rows.column(log.key).to_numpy(),
        positions >> names.ROW_BITS,
        np.append(terms_of_rows(rows.column(log.terms)), _pairs_of_rows(rows, log)),
        int(micros(rows.column(log.time)).min()),
        frozenset(text[:TEXT_BEGINNING] for text in texts),
    )


def _pairs_of_rows(rows: pa.RecordBatch, log: _Log) -> np.ndarray:
    """Return the ids of the pairs of characters that reports count of the texts of rows: int64, in any order."""
    if not log.text:
        return np.empty(0, np.int64)
    texts = rows.select(log.text).filter(pc.invert(pc.string_is_ascii(pc.fill_null(rows.column(log.text[0]), ""))))
    columns = (column.to_pylist() for column in texts.columns)
    words = (reported_words(split_text(text, breaks or ())) for text, breaks in zip(*columns, strict=True))
    return np.array([term_id(word) for some in words for word in some if is_one_of_a_run(word)], np.int64)


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
    for shown_words in get_engine(settings, home).run_tasks(tasks, partial(_words_of_answers, terms)) if tasks else []:
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


def terms_of_others(home: Home, settings: Settings, words: dict[int, str], erased: KeysByKind) -> np.ndarray:
    """Return which of these terms rows of the logs have that are not erased: int64, ascending."""
    terms, pairs = np.array(sorted(words), np.int64), _Pairs.of(words)
    parts = []
    for kind, log in LOGS.items():
        files = addresses_and_rows(home, log.name, list_data_files(home, log.name))
        tasks = split_into_tasks(files) if len(terms) else []
        parts += (
            get_engine(settings, home).run_tasks(tasks, partial(_others, kind, terms, pairs, erased[kind].keys))
            if tasks
            else []
        )
    return _distinct(parts)


class _Pairs(NamedTuple):
    """Pairs of characters that reports count, as phrases: int64[p] each, by the id of the phrase.

    phrase, term    ids of the phrase and of the pair
    first, second   ids of the characters
    """

    phrase: np.ndarray
    term: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, words: dict[int, str]) -> "_Pairs":
        """Return the pairs among words by term id; any other word is one of `tokenize`."""
        split = {term: tuple(map(term_id, tokenize(word))) for term, word in words.items() if is_one_of_a_run(word)}
        pairs = [(phrase_id(ids), term, *ids) for term, ids in split.items() if len(ids) > 1]
        return cls(*np.array(sorted(pairs), np.int64).reshape(-1, 4).T)

    def find(self, rows: pa.RecordBatch, log: _Log) -> np.ndarray:
        """Return the term ids of the pairs that objects have: int64, in any order."""
        table = PhraseTable(2 * np.arange(len(self.term) + 1), np.stack([self.first, self.second], axis=1).ravel())
        some = rows.take(pa.array(table.may_have(*csr(rows.column(log.terms)))))
        text, breaks = (some.column(name) for name in log.text)
        _, phrases = table.find(split_texts(text.cast(pa.string()), breaks.cast(BREAKS)))
        return self.term[np.searchsorted(self.phrase, phrases)]


def _others(kind: str, terms: np.ndarray, pairs: _Pairs, erased: np.ndarray, slices: tuple[Slice, ...]) -> np.ndarray:
    log, seen = LOGS[kind], np.zeros(len(terms), bool)
    has_pairs = bool(log.text) and len(pairs.term) > 0
    for rows in read_slices(slices, [log.key, log.terms, *(log.text if has_pairs else ())]):
        stay = ~is_among(rows.column(log.key).to_numpy(), erased)
        rows = rows if stay.all() else rows.filter(pa.array(stay))
        values = terms_of_rows(rows.column(log.terms))
        seen[np.searchsorted(terms, values[is_among(values, terms)])] = True
        if has_pairs:
            seen[np.searchsorted(terms, pairs.find(rows, log))] = True
        if seen.all():
            break
    return terms[seen]


def _distinct(parts: list[np.ndarray]) -> np.ndarray:
    return distinct_values(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))


DERIVED = ("pages", "data_docs", "logs")
"""Folders of a home with files that commands write for people; any of them may be deleted."""


def _ids_by_kind(asked: PendingErasure) -> dict[str, tuple[str, ...]]:
    """Return the ids without their owners: a file in quarantine, or a reject, may be of anybody."""
    return {"objects": asked.object_ids, "requests": tuple(one for _, one in asked.subscription_ids)}


def delete_files_that_name(home: Home, finder: TextFinder) -> int:
    """Delete the pages and logs that have one of the texts sought; return how many."""
    named = []
    for name in (name for folder in DERIVED for name in home.files.names(folder)):
        text = home.files.read(name).decode("utf-8", errors="replace")
        if finder.search(pa.array([text], pa.large_string())).any():
            named.append(name)
    home.files.delete(named)
    return len(named)


PAGE_CHARACTERS = 16
"""Pages may cut longer ids, at more characters than this."""


class Removed(NamedTuple):
    """What an erasure removes: rows by table, files from quarantine (their entries), pages and logs (how many)."""

    rows: dict[str, int]
    entries: Sequence[dict[str, Any]]
    files: int = 0


def erase(
    home: Home,
    settings: Settings,
    object_ids: Sequence[str] = (),
    subscription_ids: Sequence[str] = (),
    where: Sequence[str] = (),
    *,
    owner: str | None = None,
    dry_run: bool = False,
    vacuum_now: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Erase the objects and subscriptions with these ids, and the objects for which an SQL condition is true.

    Returns {"dry_run", "erasure_id" (null if nothing was erased), "object_ids", "subscription_ids" (how many), "rows":
    {table: rows removed or changed}, "files" (pages and logs deleted), "input_files": [paths], "files_until" (when
    `maintain` deletes the last files with these rows), "vacuumed", "versions_remain" (whether the storage may keep what
    was deleted, as older versions), "quarantined_files": [paths] (files in quarantine that name one of the ids, or that
    cannot be searched; they are discarded)}, which `pststream erase --json` prints.

    owner: of the subscriptions; None: of each id the only one who has it, see `resolve_owner`

    Finishes an interrupted ingest, batch or erasure first. Raises UsageError for a condition that is not SQL, and for
    an id that several owners have.
    """
    home.check()
    if dry_run:
        asked, keys = _prepare(home, settings, _ask(home, object_ids, subscription_ids, where, owner))
        counts = Counter({GOLD_PAIRS: count_pairs_of(home, *(keys[kind].keys for kind in LOGS))})
        for change in _changes(asked, keys):
            counts[change.table] += find_rows(home, settings, change).rows
        entries = find_files_that_name(home, settings, _ids_by_kind(asked))
        return _document(home, asked, keys, Removed(dict(+counts), entries), dry_run=True)
    check_gold(home, settings)
    with home.locked(), without_other_writers(home, settings):
        finish_interrupted_work(home, settings, progress)
        finish_erasure(home, settings, progress)
        asked = _ask(home, object_ids, subscription_ids, where, owner)
        asked, keys = _prepare(home, settings, replace(asked, vacuum_now=vacuum_now))
        erasures.save_pending(home, asked)
        crash_point("erase.started")
        removed = _run(home, settings, asked, keys, progress)
        return _document(home, asked, keys, removed, dry_run=False)


def finish_erasure(home: Home, settings: Settings, progress: Progress) -> None:
    """Finish an erasure that was interrupted, if there is one; the home is locked, and nothing is delivered."""
    pending = erasures.load_pending(home)
    if pending is not None:
        progress(f"finishing erasure {pending.erasure_id}, which was interrupted")
        _run(home, settings, pending, _find(home, settings, pending), progress)


def _ask(
    home: Home,
    object_ids: Sequence[str],
    subscription_ids: Sequence[str],
    where: Sequence[str],
    owner: str | None,
) -> PendingErasure:
    selected = [one for condition in where for one in select_ids(home, condition)]
    owners = resolve_owners(TableReader(home), subscription_ids, owner) if subscription_ids else {}
    subscriptions = tuple(sorted((of, one) for one, of in owners.items()))
    ids = tuple(sorted({*object_ids, *selected}))
    return PendingErasure(erasures.next_erasure_id(home), Ledger(home).next_ingest_id - 1, ids, subscriptions)


@contextmanager
def without_other_writers(home: Home, settings: Settings) -> Iterator[None]:
    """Keep deliveries, the compaction of their tables, updates of the gold table, and the answering of files of
    questions from beginning, after waiting for those that run; commit answers that a killed process has written.
    """
    scopes = [f"deliver-{sink.name}" for sink in settings.sinks]
    scopes += [f"compact-{name}" for name in (names.DELIVERIES, names.DEAD_LETTERS)]
    with ExitStack() as locks:
        for scope in scopes:
            locks.enter_context(home.locked(scope, SinkBusy, wait_seconds=RUNNER_WAIT_SECONDS))
        locks.enter_context(locked_pairs(home))
        locks.enter_context(home.locked(names.QUESTIONS, QuestionsBusy, wait_seconds=RUNNER_WAIT_SECONDS))
        commit_unfinished_answers(home)
        yield


def _find(home: Home, settings: Settings, asked: PendingErasure) -> KeysByKind:
    ids = {"objects": asked.object_ids, "requests": tuple(map(BETWEEN_IDS.join, asked.subscription_ids))}
    return {kind: find_keys(home, settings, kind, ids[kind], asked.ingests_to) for kind in LOGS}


def _prepare(home: Home, settings: Settings, asked: PendingErasure) -> tuple[PendingErasure, KeysByKind]:
    """Find the rows; add to `asked` their texts, and the words that tables show and no other row has."""
    keys = _find(home, settings, asked)
    words = words_of_terms(home, settings, _distinct([one.terms for one in keys.values()]))
    terms = np.array(sorted(words), np.int64)
    only = terms[~is_among(terms, terms_of_others(home, settings, words, keys))].tolist()
    texts = tuple(sorted({text for one in keys.values() for text in one.texts}))
    return replace(asked, texts=texts, terms=tuple(only), words=tuple(words[term] for term in only)), keys


def _changes(asked: PendingErasure, keys: KeysByKind) -> list[RowChange]:
    """Return the changes of the tables but `deliveries`, in the order of names.ERASABLE."""
    objects, subscriptions = keys["objects"].keys, keys["requests"].keys
    finder = _finder(asked, LONGEST_VALUE)
    return [
        AnswersOf(asked.object_ids, asked.words),
        ReportsOf(subscriptions, asked.words),
        LettersOf(frozenset(asked.object_ids), frozenset(asked.subscription_ids), frozenset(asked.words)),
        MatchesOf(objects, subscriptions, keys["requests"].since),
        RowsByKey(names.WORKER_INDEX, ("subscription_key",), subscriptions),
        WordsOf(np.array(asked.terms, np.int64)),
        SentencesOf(names.QUALITY_RESULTS, ("failed",), finder),
        SentencesOf(names.QUARANTINE, ("reasons",), finder),
        SentencesOf(names.QUARANTINE, ("head",), finder),
        RejectsOf("objects", asked.object_ids, asked.texts, asked.ingests_to),
        RejectsOf("requests", _ids_by_kind(asked)["requests"], asked.texts, asked.ingests_to),
        RowsByKey(names.REQUESTS, ("subscription_key",), subscriptions),
        RowsByKey(names.OBJECTS, ("object_key",), objects),
    ]


def _run(home: Home, settings: Settings, asked: PendingErasure, keys: KeysByKind, progress: Progress) -> Removed:
    """Do every step of an erasure; each may have been done by an earlier try. Returns what this try has removed."""
    rows = Counter[str]()
    entries = quarantine.note_discarded(home, find_files_that_name(home, settings, _ids_by_kind(asked)))
    crash_point("erase.discarded")
    if count := erase_pairs(home, settings, keys["objects"].keys, keys["requests"].keys):
        progress(f"{GOLD_PAIRS}: {count:,} rows removed, with older versions")
        rows[GOLD_PAIRS] = count
    for change in _changes(asked, keys):
        if count := remove_rows(home, settings, change, asked.erasure_id, ERASE):
            progress(f"{change.table}: {count:,} rows removed or changed")
            rows[change.table] += count
    erasures.restore_tables(home)
    erasures.write_checkpoints(home)
    # Delete copies of input files and rows that are not needed: of quarantined files, and of commands killed.
    clear_staging(home)
    retry_rejects.remove_unneeded_files(home)
    fetched_files.remove_unneeded_copies(home)
    quarantine.remove_unneeded_copies(home)
    scratch.remove_left_folders(home, days=0)
    deleted = delete_files_that_name(home, _finder(asked, PAGE_CHARACTERS))
    SegmentCache(settings.cache_dir, settings.cache_bytes).clear()
    crash_point("erase.files_deleted")
    if asked.vacuum_now:
        for name in names.ERASABLE:
            erasures.drop_older_versions(home, name)
            crash_point("erase.vacuumed")
    erasures.forget_pending(home)
    return Removed(dict(rows), entries, deleted)


def _finder(asked: PendingErasure, longest: int) -> TextFinder:
    """Return a finder of what pages and sentences may show: ids and words, those over `longest` cut, and texts."""
    shown = (*asked.object_ids, *_ids_by_kind(asked)["requests"], *asked.words)
    cut = (one[:longest] for one in shown if len(one) > longest)
    texts = (text[:LONGEST_VALUE] for text in asked.texts)
    return TextFinder([one for one in shown if len(one) <= longest], (*cut, *texts))


def remove_rows(home: Home, settings: Settings, change: RowChange, erasure_id: int, cause: str) -> int:
    """Remove or change the rows of a change, and record it; return how many. The home is locked."""
    affected = find_rows(home, settings, change)
    if not affected.rows:
        return 0
    restart_deliveries(home, settings, erasure_id, cause, change.table, affected.pairs.batch_ids)
    added = rewrite_files(home, settings, change, affected)
    matched = 0
    if change.table == names.OBJECTS:  # objects below a bound in time are all matched
        last = Ledger(home).objects_matched
        matched = int(np.searchsorted(change.keys, last, "right")) if isinstance(change, RowsByKey) else affected.rows
    removal = Removal(affected.rows, matched, affected.pairs)
    days = settings.retention_days
    erasures.commit_removal(
        home, change.table, added, affected.files, removal, erasure_id=erasure_id, cause=cause, retention_days=days
    )
    return affected.rows


def restart_deliveries(
    home: Home, settings: Settings, erasure_id: int, cause: str, table: str, batch_ids: Container[int] = ()
) -> None:
    """Let each sink begin its current batch again if it may lose messages: its position counts the messages before.

    With a limit, the messages of earlier batches decide which messages a batch has.

    table      the table that loses rows
    batch_ids  of `matches`: the batches that lose pairs; of `answer_log` and `requests` any batch with changes may
    """
    if table not in (names.MATCHES, names.ANSWER_LOG, names.REQUESTS):
        return
    saved = [(sink.name, read_progress(home, sink.name)) for sink in settings.sinks]
    current = [(name, one) for name, one in saved if not one.complete]
    if table != names.MATCHES:
        is_current = pds.field("batch_id").isin([one.batch_id for _, one in current])
        rows = read_table(home.table(names.BATCHES), ["batch_id", "changes"], is_current).to_pylist()
        batch_ids = [row["batch_id"] for row in rows if any(dict(row["changes"] or ()).values())]
    batches = tuple((name, one.batch_id) for name, one in current if one.message_limit or one.batch_id in batch_ids)
    remove_rows(home, settings, PositionsIn(batches), erasure_id, cause)


def _document(
    home: Home, asked: PendingErasure, keys: KeysByKind, removed: Removed, *, dry_run: bool
) -> dict[str, Any]:
    file_seqs = _distinct([one.files for one in keys.values()])
    wanted = pds.field("file_seq").isin(file_seqs.tolist()) & (pds.field("status") == "done")
    paths = read_table(home.table(names.FILES), ["path"], wanted).column(0).to_pylist()
    columns = ["erasure_id", "files_until"]  # not the lists of batches, one number for each
    recorded = [] if dry_run else erasures.removed_rows(home).select(columns).to_pylist()
    until = [row["files_until"] for row in recorded if row["erasure_id"] == asked.erasure_id]
    return {
        "dry_run": dry_run,
        "erasure_id": asked.erasure_id if until else None,
        "object_ids": len(asked.object_ids),
        "subscription_ids": len(asked.subscription_ids),
        "rows": removed.rows,
        "files": removed.files,
        "input_files": sorted(paths),
        "files_until": None if asked.vacuum_now else max(until, default=None),
        "vacuumed": asked.vacuum_now,
        "versions_remain": home.storage.keeps_versions(home.path) is not False,
        "quarantined_files": sorted(entry["path"] for entry in removed.entries),
    }
