"""Read the ledgers of a home (files, batches), whole or their end; keys, watermarks and counts of their rows."""

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.utc_times import from_micros
from pststream.tables.delta_tables import AnyHome, TableReader, greatest_value, read_table

MAX_ROW = (1 << names.ROW_BITS) - 1
"""The greatest row number that a key holds."""

JUDGED_BY = "judged_by"
"""Key in the options of a landed file of objects: the watermark (microseconds) by which its objects are late or not,
that of the log before the round in which the file was found; null: there was none."""

ROUND_GOES_ON = "round_goes_on"
"""Key in the options of a landed file of objects: whether more groups of its round were to follow."""


class FileRow(TypedDict):
    """A row of `files`; state/tables.py says what the columns mean. Rows `started` have null from `rows` on."""

    file_seq: int
    ingest_id: int
    kind: str
    path: str
    sha256: str
    bytes: int
    options: str
    status: str
    rows: int
    accepted: int
    rejected: int
    attributed: int
    watermark: dt.datetime | None
    min_ts: dt.datetime | None
    max_ts: dt.datetime | None
    started_at: dt.datetime
    owner: str | None
    live: list[int] | None
    withdrawal_id: int | None
    statistics_version: int | None


class BatchRow(TypedDict):
    """A row of `batches`; state/tables.py says what the columns mean. Rows `started` have null from `objects` on."""

    batch_id: int
    status: str
    plan_version: int
    objects_after: int
    objects_to: int
    requests_after: int
    requests_to: int
    objects_version: int
    requests_version: int
    objects: int
    discarded: int
    requests: int
    matches: int
    retractions: int
    seconds_by_step: list[tuple[str, float]]
    started_at: dt.datetime
    finished_at: dt.datetime
    stream_time: dt.datetime | None
    removals: int
    candidates: list[tuple[str, int]] | None
    changes: list[tuple[str, int]] | None
    evaluations: list[tuple[str, int]] | None
    engine: str | None


def log_key(file_seq: int, row: int) -> int:
    """Return the key of a row of the object log or the request log: its file, then its row in the file."""
    return file_seq << names.ROW_BITS | row


def watermark_after(file: FileRow) -> dt.datetime | None:
    """Return the watermark of the object log after a file of objects or a withdrawal, which alone may lower it."""
    if file["withdrawal_id"] is not None:
        return file["max_ts"]
    return max((ts for ts in (file["watermark"], file["max_ts"]) if ts is not None), default=None)


def seconds_ahead(watermark: dt.datetime | None, now: dt.datetime, max_ahead_seconds: int) -> int:
    """Return how many seconds further ahead of the clock the watermark is than the setting allows; 0 if it is not."""
    if watermark is None or not max_ahead_seconds:
        return 0
    return max(0, math.ceil((watermark - now).total_seconds()) - max_ahead_seconds)


def latest_rows(rows: pa.Table, key: str) -> pa.Table:
    """Return the latest row of each key, ordered by `key`: `done`, or `started` where the key has no other row.

    A batch may have several rows `started`, each with a smaller range than the one before; rows with the columns of the
    range are ordered by it.
    """
    keys = rows.column(key).to_numpy()
    ends = [-rows.column(name).to_numpy() for name in ("requests_to", "objects_to") if name in rows.column_names]
    order = np.lexsort((*ends, pc.equal(rows.column("status"), "done").to_numpy(), keys))
    is_last = np.append(keys[order][1:] != keys[order][:-1], True)[: len(order)]
    return rows.take(order[is_last])


def split_by_status(rows: pa.Table, key: str) -> tuple[pa.Table, pa.Table]:
    """Return the latest rows in two tables, both ordered by `key`: those `done`, and those only `started`."""
    latest = latest_rows(rows, key)
    is_done = pc.equal(latest.column("status"), "done")
    return latest.filter(is_done), latest.filter(pc.invert(is_done))


def step_seconds(seconds: Sequence[tuple[str, float]] | None) -> dict[str, float]:
    """Return the seconds of each step of a batch from its column `seconds_by_step`, without the CPU seconds in it."""
    return {step: value for step, value in seconds or () if not step.endswith("_cpu")}


# The end of both ledgers, for the pipeline and for `state`

RECENT_BATCHES = 9
"""Batches whose rows a ledger has."""


@dataclass(frozen=True)
class Pending:
    """Key ranges of the rows that the next batch processes: greater than `after`, up to `to`."""

    objects_after: int
    objects_to: int
    requests_after: int
    requests_to: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.objects_to <= self.objects_after and self.requests_to <= self.requests_after


class Ledger:
    """The end of both ledgers, read when this object is created; the rest may be years long and is not read.

    last_batch   the last batch, done or started; None: no batch yet
    batches      the last RECENT_BATCHES batches, the last one included, in order
    files        files of objects from the one in which the objects of the last batch begin; files of requests from
                 there too, but none before the last one that an earlier batch applied. So they include all files of
                 the last and of the next batch, and the last file of the log.
    """

    def __init__(self, home: AnyHome) -> None:
        last = greatest_value(home.table(names.BATCHES), "batch_id")
        self.batches = read_batches(home, last - RECENT_BATCHES) if last else []
        self.last_batch = self.batches[-1] if self.batches else None
        objects_after = self.last_batch["objects_after"] if self.last_batch else 0
        requests_after = self.last_batch["requests_after"] if self.last_batch else 0
        seq, kind = pds.field("file_seq"), pds.field("kind")
        recent = (seq >= requests_after >> names.ROW_BITS) | (kind == names.OBJECTS)
        self.files = read_files(home, (seq >= objects_after >> names.ROW_BITS) & recent)

    def done(self, kind: str) -> list[FileRow]:
        """Return those files of a kind whose ingest is done, in the order of the log."""
        return [f for f in self.files if f["kind"] == kind and f["status"] == "done"]

    def unfinished_ingest(self) -> list[FileRow]:
        """Return the files of an ingest that started and is not done."""
        return [f for f in self.files if f["status"] == "started"]

    def batches_before(self, batch_id: int) -> list[BatchRow]:
        """Return those of `batches` that are earlier than a batch, in order."""
        return [batch for batch in self.batches if batch["batch_id"] < batch_id]

    def unfinished_batch(self) -> BatchRow | None:
        """Return the batch that started and is not done."""
        return self.last_batch if self.last_batch and self.last_batch["status"] == "started" else None

    @property
    def next_file_seq(self) -> int:
        """Number of the next file of the log, from 1."""
        return self.files[-1]["file_seq"] + 1 if self.files else 1

    @property
    def next_ingest_id(self) -> int:
        """Number of the next ingest, from 1."""
        return max((f["ingest_id"] for f in self.files), default=0) + 1

    @property
    def next_batch_id(self) -> int:
        """Number of the next batch, from 1."""
        return int(self.last_batch["batch_id"]) + 1 if self.last_batch else 1

    @property
    def objects_matched(self) -> int:
        """Key up to which batches have matched objects, including an unfinished batch, which has to finish first."""
        return int(self.last_batch["objects_to"]) if self.last_batch else 0

    @property
    def requests_applied(self) -> int:
        """Key up to which batches have applied requests to the index, including an unfinished batch."""
        return int(self.last_batch["requests_to"]) if self.last_batch else 0

    def watermark(self) -> dt.datetime | None:
        """Return the watermark of the object log: the greatest ts, without withdrawn objects."""
        return _watermark_after(self.done("objects"))

    def pending(self, max_objects: int) -> Pending:
        """Return what the next batch takes: all pending requests, and at most `max_objects` rows of the object log."""
        requests = self.done("requests")
        requests_to = log_key(requests[-1]["file_seq"], MAX_ROW) if requests else 0
        return Pending(
            self.objects_matched,
            self.object_key_after(self.objects_matched, max_objects),
            self.requests_applied,
            max(requests_to, self.requests_applied),
        )

    def pending_objects(self, up_to: int = names.MAX_INT64) -> int:
        """Return about how many accepted objects with keys up to `up_to` no batch has processed: of a file in parts,
        its share of the rows.
        """
        matched, objects = self.objects_matched, 0.0
        for file in self.done("objects"):
            last = min(log_key(file["file_seq"], file["rows"]), up_to)
            left = last - max(matched, log_key(file["file_seq"], 0))
            objects += file["accepted"] * min(max(left, 0) / max(file["rows"], 1), 1.0)
        return round(objects)

    def object_rows(self, after: int, up_to: int) -> int:
        """Count the rows of the object log in a key range that begins where the last batch does, or later."""
        ends = (
            (log_key(file["file_seq"], 0), log_key(file["file_seq"], file["rows"])) for file in self.done("objects")
        )
        return sum(max(0, min(last, up_to) - max(first, after)) for first, last in ends)

    def object_key_after(self, position: int, budget: int) -> int:
        """Return the key `budget` rows of the object log after a key, from where the last batch begins on."""
        for file in self.done("objects"):
            first = log_key(file["file_seq"], 0)
            last = log_key(file["file_seq"], file["rows"])
            begin = max(position, first)
            if last <= begin:
                continue
            if budget == 0:
                break
            rows = min(budget, last - begin)
            budget -= rows
            position = begin + rows
        return position

    def max_matched_ts(self, objects_after: int) -> dt.datetime | None:
        """Return an upper bound of the ts of the objects up to key `objects_after`, without withdrawn objects."""
        return _watermark_after([f for f in self.done("objects") if log_key(f["file_seq"], 0) < objects_after])

    def min_request_time(self, after: int, to: int) -> dt.datetime | None:
        """Return the least `at` of the requests accepted in the files of this key range; None if there are none."""
        return min(
            (
                f["min_ts"]
                for f in self.done("requests")
                if after < log_key(f["file_seq"], MAX_ROW) <= to and f["min_ts"]
            ),
            default=None,
        )

    def accepted_requests(self, after: int, to: int) -> int:
        """Count the requests accepted in the files of this key range; a batch takes whole files of requests."""
        return sum(f["accepted"] for f in self.done("requests") if after < log_key(f["file_seq"], MAX_ROW) <= to)

    def horizon(self, lateness: dt.timedelta) -> dt.datetime | None:
        """Return a lower bound of the ts of all objects that no batch has matched yet, also of later ingests; or None.

        An object may precede the watermark by `lateness`, or, in a pending file or a file of an unfinished ingest, by
        the lateness that its ingest was given, if that is greater. A pending withdrawal may have lowered the watermark.
        """
        pending = [f for f in self.done("objects") if log_key(f["file_seq"], f["rows"]) > self.objects_matched]
        unfinished = self.unfinished_ingest()
        bounds = [self.watermark(), *map(judged_by, pending)]
        if (round := self.open_round()) is not None:
            bounds.append(judged_by(round))
        bounds += [judged_by(f) for f in unfinished if JUDGED_BY in f["options"]]
        own = [json.loads(f["options"]).get("lateness_seconds", 0) for f in [*pending, *unfinished]]
        lateness = max(lateness, dt.timedelta(seconds=max(own, default=0)))
        return None if None in bounds else min(bound for bound in bounds if bound is not None) - lateness

    def open_round(self) -> FileRow | None:
        """Return the last landed file of objects if more groups of its round were to follow."""
        landed = [f for f in self.files if f["kind"] == names.OBJECTS and JUDGED_BY in f["options"]]
        return landed[-1] if landed and json.loads(landed[-1]["options"]).get(ROUND_GOES_ON) else None


def read_files(home: AnyHome, filter: pds.Expression | None = None) -> list[FileRow]:
    """Return the files of the log that pass the filter, in the order of the log."""
    rows: list[FileRow] = read_latest(home, names.FILES, "file_seq", filter=filter).to_pylist()
    return rows


def read_batches(home: AnyHome, after: int = 0, up_to: int = names.MAX_INT64) -> list[BatchRow]:
    """Return the batches with after < batch_id <= up_to, in order."""
    within = (pds.field("batch_id") > after) & (pds.field("batch_id") <= up_to)
    rows: list[BatchRow] = read_latest(home, names.BATCHES, "batch_id", filter=within).to_pylist()
    return rows


def read_latest(
    home: AnyHome, name: str, key: str, columns: list[str] | None = None, filter: pds.Expression | None = None
) -> pa.Table:
    """Return the latest row of each key of a ledger, by key; `columns`: those besides key and status, None: all."""
    selected = None if columns is None else [key, "status", *columns]
    return latest_rows(read_table(home.table(name), selected, filter), key)


def read_known_files(home: AnyHome, hashes: Collection[str]) -> list[dict[str, Any]]:
    """Return kind, sha256, path, options, file_seq and accepted (rows; null while it is started) of those files of the
    log that have one of these hashes.

    A file that is done is returned twice.
    """
    if not hashes:
        return []
    wanted = pds.field("sha256").isin(pa.array(hashes, pa.string()))
    rows: list[dict[str, Any]] = read_table(
        home.table(names.FILES), ["kind", "sha256", "path", "options", "file_seq", "accepted"], wanted
    ).to_pylist()
    return rows


def known_hashes(home: AnyHome, hashes: Collection[str]) -> set[tuple[str, str]]:
    """Return (kind, hash) of those files of the log, done or started, that have one of these hashes."""
    return {(row["kind"], row["sha256"]) for row in read_known_files(home, hashes)}


def read_live(home: AnyHome, owners: Collection[str], before: int) -> dict[str, tuple[list[int], int]]:
    """Return of owners what `live` of their last file before the file `before` says, and the latest time (microseconds)
    at which an ingest of their files before it began. Owners without such a file are left out.
    """
    earlier = (pds.field("status") == "done") & (pds.field("file_seq") < before)
    of_owners = pds.field("owner").isin(pa.array(owners, pa.string()))
    rows = read_table(home.table(names.FILES), ["file_seq", "owner", "live", "started_at"], earlier & of_owners)
    last = rows.group_by("owner").aggregate([("file_seq", "max"), ("started_at", "max")])
    rows = rows.filter(pc.is_in(rows.column("file_seq"), last.column("file_seq_max")))
    live = dict(zip(rows.column("owner").to_pylist(), rows.column("live").to_pylist()))
    times = last.column("started_at_max").cast(pa.int64()).to_pylist()
    return {owner: (live[owner], time) for owner, time in zip(last.column("owner").to_pylist(), times)}


def recent_row_counts(home: AnyHome, kind: str, paths: Sequence[str], count: int) -> list[list[int]]:
    """Return for each path the numbers of rows of the last `count` files of a kind whose ingest is done and that came
    from the same folder, in the order of the log.

    Folder is the first one below `objects/` or `requests/` of a landing folder, which a sender has for itself, with all
    that is below it; of a file elsewhere, the one that it lies in.
    """
    done = (pds.field("kind") == kind) & (pds.field("status") == "done")
    is_file = pds.field("withdrawal_id").is_null() & pds.field("statistics_version").is_null()
    rows = read_table(home.table(names.FILES), ["file_seq", "path", "rows"], done & is_file).sort_by("file_seq")
    stored = _folders(rows.column("path"), kind)
    asked = _folders(pa.array(paths, pa.string()), kind).to_pylist()
    counts = {}
    for folder in set(asked):
        of_folder = rows.column("rows").filter(pc.equal(stored, folder))
        counts[folder] = of_folder.slice(max(0, len(of_folder) - count)).to_pylist()
    return [counts[folder] for folder in asked]


def _folders(paths: pa.Array, kind: str) -> pa.Array:
    return pc.replace_substring_regex(paths, rf"^(.*/{kind}/(?:[^/]+/)?|.*/|).*$", r"\1")


def in_one_round(before: FileRow, file: FileRow) -> bool:
    """Whether a file of objects is of the same round as the one before it."""
    options = json.loads(before["options"])
    if JUDGED_BY not in options or judged_by(before) != judged_by(file):
        return False
    return before["ingest_id"] == file["ingest_id"] or bool(options.get(ROUND_GOES_ON))


def judged_by(file: FileRow) -> dt.datetime | None:
    """Return the watermark by which the objects of a file are late or not."""
    options = json.loads(file["options"])
    if JUDGED_BY not in options:  # a withdrawal, or a file of requests
        return file["watermark"]
    return None if options[JUDGED_BY] is None else from_micros(options[JUDGED_BY])


def _watermark_after(done: list[FileRow]) -> dt.datetime | None:
    """Return the watermark of the object log after the last of these files; None if there are none."""
    return watermark_after(done[-1]) if done else None


# The columns of `batches` that count by kind what a batch does to answers

Counts = Mapping[str, int]
"""Numbers by the name of the kind."""


@dataclass
class AnswerCounts:
    """Counts by the name of the kind; the fields are columns of `batches`.

    candidates   pairs of an object and a subscription whose answer it may enter
    changes      rows that entered or left answers
    evaluations  answers computed from the stored objects; of `frequent_terms`, reports made, corrected or retracted
    """

    candidates: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    evaluations: Counter[str] = field(default_factory=Counter)


COLUMNS = ("candidates", "changes", "evaluations")


def ledger_columns(parts: Iterable[AnswerCounts]) -> dict[str, list[tuple[str, int]]]:
    """Return the sums of counts as values of the columns, without kinds that have no rows."""
    sums = {name: Counter[str]() for name in COLUMNS}
    for part in parts:
        for name, counts in sums.items():
            counts.update(getattr(part, name))
    return {name: sorted((+counts).items()) for name, counts in sums.items()}


def sum_counts(batches: pa.Table) -> dict[str, Counts]:
    """Return the sums of the columns over rows of `batches`, by column and kind."""
    return {name: _sum(batches.column(name)) for name in COLUMNS}


def _sum(column: pa.ChunkedArray) -> Counts:
    sums = Counter[str]()
    for chunk in column.chunks:
        first, stop = chunk.offsets[0].as_py(), chunk.offsets[-1].as_py()
        pairs = pa.table({"kind": chunk.keys[first:stop], "count": chunk.items[first:stop]})
        grouped = pairs.group_by("kind").aggregate([("count", "sum")])
        sums.update(dict(zip(*(grouped.column(name).to_pylist() for name in ("kind", "count_sum")), strict=True)))
    return dict(sums)


# Whole ledgers as tables, for commands, pages and `export`

_FILES = (
    "file_seq", "ingest_id", "kind", "path", "status", "rows", "accepted", "rejected", "min_ts", "max_ts", "started_at",
    "sha256", "withdrawal_id", "statistics_version", "options",
)  # fmt: skip
_BATCHES = (
    "batch_id", "status", "plan_version", "objects_to", "requests_to", "objects", "discarded", "requests", "matches",
    "retractions", "seconds_by_step", "started_at", "finished_at", "stream_time", "removals", "engine", *COLUMNS,
)  # fmt: skip


class LedgerHistory:
    """All files and all batches as tables: finished ones, and ones that have only started."""

    def __init__(self, reader: TableReader) -> None:
        self.batches, self.started_batches = split_by_status(reader.read(names.BATCHES, _BATCHES), "batch_id")
        self.files, self.started_files = split_by_status(reader.read(names.FILES, _FILES), "file_seq")

    @property
    def objects_matched(self) -> int:
        """Key up to which batches that are done have matched objects."""
        return int(pc.max(self.batches.column("objects_to")).as_py() or 0)

    @property
    def requests_applied(self) -> int:
        """Key up to which batches that are done have applied requests."""
        return int(pc.max(self.batches.column("requests_to")).as_py() or 0)

    def files_of(self, kind: str) -> pa.Table:
        """Return the files of a kind whose ingest is done, in the order of the log; other events are no files."""
        of_kind = pc.equal(self.files.column("kind"), kind)
        events = (pc.is_valid(self.files.column(name)) for name in ("withdrawal_id", "statistics_version"))
        return self.files.filter(pc.and_not(of_kind, pc.or_(*events)))

    @property
    def withdrawals(self) -> list[dict[str, Any]]:
        """The rows of withdrawals, in the order of the log."""
        return self._with("withdrawal_id")

    @property
    def statistics_changes(self) -> list[dict[str, Any]]:
        """The rows that put term statistics in force, in the order of the log."""
        return self._with("statistics_version")

    def _with(self, column: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.files.filter(pc.is_valid(self.files.column(column))).to_pylist()
        return rows

    def watermark(self) -> dt.datetime | None:
        """Return the watermark of the object log: the greatest ts, without withdrawn objects."""
        last = max((row["file_seq"] for row in self.withdrawals if row["kind"] == names.OBJECTS), default=0)
        objects = self.files.filter(pc.equal(self.files.column("kind"), names.OBJECTS))
        since = objects.filter(pc.greater_equal(objects.column("file_seq"), last))
        watermark: dt.datetime | None = pc.max(since.column("max_ts")).as_py()
        return watermark

    def pending_files(self, kind: str) -> list[dict[str, Any]]:
        """Return the files of a kind that still have rows which no finished batch has processed."""
        batched = self.objects_matched if kind == "objects" else self.requests_applied
        files = self.files_of(kind)
        last_rows = files.column("rows").to_numpy() if kind == "objects" else MAX_ROW
        last_keys = files.column("file_seq").to_numpy() << names.ROW_BITS | last_rows
        pending: list[dict[str, Any]] = files.filter(pa.array(last_keys > batched)).to_pylist()
        return pending


def read_done_batches(reader: TableReader, columns: Sequence[str]) -> pa.Table:
    """Return these columns of all batches that are done."""
    return split_by_status(reader.read(names.BATCHES, ["batch_id", "status", *columns]), "batch_id")[0]


def done_batches_filter(reader: TableReader) -> pds.Expression:
    """Return a filter of the rows of batches that are done; a range of ids, so it is short for any number."""
    table = reader.read(names.BATCHES, ["batch_id"], pds.field("status") == "done")
    done = distinct_values(table.column(0).to_numpy())
    if not len(done):
        return pds.field("batch_id") < 0
    undone = np.setdiff1d(np.arange(done[0], done[-1]), done)
    within = (pds.field("batch_id") >= int(done[0])) & (pds.field("batch_id") <= int(done[-1]))
    return within & ~pds.field("batch_id").isin(undone.tolist()) if len(undone) else within
