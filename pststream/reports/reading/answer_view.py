"""Read the answers of some subscriptions with memory for pages, and the stored size of all answers.

An answer is the last snapshot with the changes after it, so a page does not read the whole log. Changes are read from
the latest data files on, until there are enough of them or MAX_SEARCHED rows were searched.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import TIME, sum_column
from pststream.base.texts import byte_size, counted
from pststream.base.utc_times import from_micros, iso, to_micros
from pststream.queries.kinds.contract import StoredSubscription
from pststream.queries.kinds.fields import parse_duration
from pststream.queries.kinds.frequent_terms import last_tick
from pststream.tables.delta_tables import TableReader
from pststream.tables.ledgers import LedgerHistory

MAX_SEARCHED = 4_000_000
"""Greatest number of rows of `answer_log` that are searched for changes of objects."""

LATEST_CHANGES = 200
"""Changes that are read of each subscription, if there are so many."""

TICKS = 24
"""The latest ticks whose reports are read."""

Row = dict[str, Any]
"""A row of `answer_log`."""

_COLUMNS = ("batch_id", "event", "subscription_key", "object_key", "ts", "value", "rank", "term", "count")
_MAX_TEXT = 500


class StoredAnswer(NamedTuple):
    """The rows of `answer_log` that an answer is made of.

    present   rows that entered and have not left; of reports those of the latest ticks
    changes   in the order of the batches
    complete  whether all rows since the last snapshot were searched; else `present` may lack some
    """

    present: list[Row]
    changes: list[Row]
    complete: bool


class AskedAnswer(NamedTuple):
    """A subscription whose answer is read.

    step   of `frequent_terms`, in microseconds; 0: of another kind
    until  its end; None: none
    since  its start; None: before all ticks
    """

    key: int
    k: int
    step: int = 0
    until: dt.datetime | None = None
    since: dt.datetime | None = None

    def tick(self, stream_time: dt.datetime | None) -> dt.datetime | None:
        """Return the tick of the report that is the answer; None if there is none."""
        if stream_time is None:
            return None
        since, until = (None if time is None else to_micros(time) for time in (self.since, self.until))
        tick = last_tick(self.step, names.NO_TIME if since is None else since, until, to_micros(stream_time))
        return None if tick is None else from_micros(tick)


def asked_answer(subscription: StoredSubscription, applied: int) -> AskedAnswer:
    """Return what is needed to read the answer of a subscription with memory; applied: key of the last request that a
    batch has applied.
    """
    described = subscription.query.describe()
    step = parse_duration("step", described["step"]) if "step" in described else 0
    validity = subscription.validity(applied)
    return AskedAnswer(subscription.key, described["k"], step, validity.end_at, validity.created_at)


@dataclass(frozen=True)
class ViewedRow:
    """A row of an answer: an object with its place and text, or a term with its count. value: metres, negative score"""

    rank: int
    ts: dt.datetime
    value: float = 0.0
    term: str | None = None
    count: int | None = None
    object_id: str | None = None
    lon: float = 0.0
    lat: float = 0.0
    text: str = ""


@dataclass(frozen=True)
class ViewedChange:
    """A change of an answer: an object, whose id is None if it was erased, or a term of the report of the tick `ts`."""

    batch_id: int
    entered: bool
    rank: int
    ts: dt.datetime
    value: float
    object_id: str | None
    term: str | None
    count: int | None


@dataclass
class AnswerView:
    """What the tables have of an answer.

    as_of     stream time of the last batch; of reports the tick of the shown one, which may have no word
    rows      by rank, without erased objects
    changes   the latest first
    ticks     of reports: the terms with their counts by tick, the earliest first
    complete  whether all rows since the last snapshot were searched; else `rows` may lack some
    """

    as_of: dt.datetime | None
    rows: list[ViewedRow] = field(default_factory=list)
    changes: list[ViewedChange] = field(default_factory=list)
    ticks: dict[dt.datetime, dict[str, int]] = field(default_factory=dict)
    complete: bool = True


def read_answer_views(reader: TableReader, asked: Sequence[AskedAnswer]) -> list[AnswerView]:
    """Read the answers of subscriptions after the last batch that is done."""
    done = reader.read(names.BATCHES, ("batch_id", "stream_time"), pds.field("status") == "done").sort_by("batch_id")
    if not done.num_rows or not asked:
        return [AnswerView(None) for _ in asked]
    last, stream_time = (done.column(name)[-1].as_py() for name in ("batch_id", "stream_time"))
    stored = read_stored_answers(reader, asked, last, stream_time)
    latest = [one.changes[-LATEST_CHANGES:][::-1] for one in stored]
    shown = [row for one, rows in zip(stored, latest, strict=True) for row in (*one.present, *rows)]
    objects = _read_objects(reader, [row["object_key"] for row in shown])
    return [
        _make_view(one, stream_time, answer, newest, objects)
        for one, answer, newest in zip(asked, stored, latest, strict=True)
    ]


def read_stored_answers(
    reader: TableReader, asked: Sequence[AskedAnswer], last: int, stream_time: dt.datetime | None
) -> list[StoredAnswer]:
    """Read the answers of subscriptions after batch `last`, which ended at `stream_time`."""
    of_objects = [one for one in asked if not one.step]
    snapshot = _last_snapshot(_files(reader, names.ANSWERS)) if of_objects else 0
    logged, complete = _read_latest(reader, [one.key for one in of_objects], last, snapshot)
    kept = _read_snapshot(reader, of_objects, snapshot)
    answers = []
    for one in asked:
        if one.step:
            changes = _read_reports(reader, one, last, stream_time)
            answers.append(StoredAnswer(_present(changes), changes, True))
        else:
            changes = logged.get(one.key, [])
            since = [row for row in changes if row["batch_id"] > snapshot]
            answers.append(StoredAnswer(_present([*kept.get(one.key, []), *since]), changes, complete))
    return answers


def _make_view(
    asked: AskedAnswer,
    stream_time: dt.datetime | None,
    answer: StoredAnswer,
    latest: list[Row],
    objects: dict[int, Row],
) -> AnswerView:
    ticks: dict[dt.datetime, dict[str, int]] = {}
    present, as_of = answer.present, stream_time
    if asked.step:
        for row in present:
            ticks.setdefault(row["ts"], {}).update({row["term"]: row["count"]} if row["count"] else {})
        as_of = asked.tick(stream_time)
        present = [row for row in present if row["ts"] == as_of and row["count"]]
    rows = [
        ViewedRow(rank, row["ts"], row["value"] or 0.0, row["term"], row["count"], **objects.get(row["object_key"], {}))
        for rank, row in enumerate(sorted(present, key=answer_order), 1)
        if row["object_key"] is None or row["object_key"] in objects
    ]
    changes = [
        ViewedChange(
            row["batch_id"], row["event"] == "entered", row["rank"], row["ts"], row["value"] or 0.0,
            objects.get(row["object_key"], {}).get("object_id"), row["term"], row["count"],
        )
        for row in latest
    ]  # fmt: skip
    return AnswerView(as_of, rows, changes, dict(sorted(ticks.items())[-TICKS:]), answer.complete)


def answer_order(row: Row) -> tuple[Any, ...]:
    """Return what orders the rows of an answer, the best first."""
    if row["object_key"] is None:
        return -row["count"], row["term"].encode()
    return row["value"], -to_micros(row["ts"]), -row["object_key"]


def _read_snapshot(reader: TableReader, asked: Sequence[AskedAnswer], batch_id: int) -> dict[int, list[Row]]:
    """Return the k best rows of each subscription in a snapshot, as rows that entered."""
    if not batch_id or not asked:
        return {}
    wanted = (pds.field("batch_id") == batch_id) & pds.field("subscription_key").isin([one.key for one in asked])
    columns = ("batch_id", "subscription_key", "object_key", "ts", "value")
    rows = reader.rows(names.ANSWERS, columns, wanted & pds.field("object_key").is_valid())
    kept: dict[int, list[Row]] = {}
    for row in rows:
        kept.setdefault(row["subscription_key"], []).append({**row, "event": "entered", "term": None, "count": None})
    return {one.key: sorted(kept.get(one.key, []), key=answer_order)[: one.k] for one in asked}


def _read_latest(
    reader: TableReader, keys: Sequence[int], last: int, snapshot: int
) -> tuple[dict[int, list[Row]], bool]:
    """Read changes of objects by subscription, in the order of the batches: all after the snapshot, and some before.

    Returns also whether all after the snapshot were read.
    """
    changes: dict[int, list[Row]] = {key: [] for key in keys}
    if not keys:
        return changes, True
    batch = pds.field("batch_id")
    wanted = (pds.field("part") == "change") & pds.field("subscription_key").isin(list(keys)) & (batch <= last)
    searched, complete = 0, True
    for greatest, file in reader.files(names.ANSWER_LOG, "batch_id", wanted, greatest=True):
        enough = all(len(rows) >= LATEST_CHANGES for rows in changes.values())
        if searched >= MAX_SEARCHED or (enough and greatest <= snapshot):
            complete = greatest <= snapshot
            break
        searched += file.count_rows()
        for batch_rows in reader.batches_of(names.ANSWER_LOG, file, _COLUMNS, wanted):
            for row in batch_rows.to_pylist():
                changes[row["subscription_key"]].append(row)
    return {key: sorted(rows, key=_log_order) for key, rows in changes.items()}, complete


def _log_order(row: Row) -> tuple[Any, ...]:
    return row["batch_id"], row["event"] == "entered", row["ts"], row["rank"]


def _read_reports(reader: TableReader, asked: AskedAnswer, last: int, stream_time: dt.datetime | None) -> list[Row]:
    """Read the changes of the latest TICKS ticks of a `frequent_terms` subscription, in the order of the batches."""
    if stream_time is None:
        return []
    until = stream_time if asked.until is None else min(stream_time, asked.until)
    since = to_micros(until) - TICKS * asked.step
    wanted = (pds.field("part") == "change") & (pds.field("subscription_key") == asked.key)
    wanted &= (pds.field("ts") > pa.scalar(since, pa.int64()).cast(TIME)) & (pds.field("batch_id") <= last)
    return sorted(reader.rows(names.ANSWER_LOG, _COLUMNS, wanted), key=_log_order)


def _present(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that entered and have not left."""
    present: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        identity = row["object_key"], row["ts"], row["term"]
        if row["event"] == "entered":
            present[identity] = row
        else:
            present.pop(identity, None)
    return list(present.values())


def _read_objects(reader: TableReader, keys: Sequence[int | None]) -> dict[int, Row]:
    """Return id, place and text of objects by key, without erased ones."""
    wanted = sorted({key for key in keys if key is not None})
    if not wanted:
        return {}
    key = pds.field("object_key")
    among = key.isin(wanted) & (key >= wanted[0]) & (key <= wanted[-1])
    rows = reader.rows(names.OBJECTS, ("object_key", "object_id", "lon", "lat", "text"), among)
    return {row.pop("object_key"): {**row, "text": (row["text"] or "")[:_MAX_TEXT]} for row in rows}


def read_answer_sizes(reader: TableReader, ledgers: LedgerHistory) -> dict[str, Any]:
    """Return {"stream_time", "log": {part: {"files", "rows", "bytes"}}, "snapshot": {"batch_id", "rows", "bytes"}}.

    The sizes come from the logs of the tables and from the ledger of batches; no data file is read.

    stream_time: that of the last batch, ISO 8601 in UTC; None without objects. snapshot: None if there is none.
    """
    times = ledgers.batches.column("stream_time")
    log = _files(reader, names.ANSWER_LOG)
    parts = log.column("partition.part").to_pylist() if log.num_rows else []
    answers, snapshot = _files(reader, names.ANSWERS), None
    if last := _last_snapshot(answers):
        size = _size(answers.filter(pc.equal(answers.column("max.batch_id"), last)))
        snapshot = {"batch_id": last, "rows": size["rows"], "bytes": size["bytes"]}
    return {
        "stream_time": iso(times[-1].as_py()) if len(times) else None,
        "log": {part: _size(log.filter(pc.equal(log.column("partition.part"), part))) for part in sorted(set(parts))},
        "snapshot": snapshot,
    }


def _files(reader: TableReader, name: str) -> pa.Table:
    return pa.table(reader.table(name).get_add_actions(flatten=True))


def _last_snapshot(files: pa.Table) -> int:
    """Return the batch of the last snapshot among the files of `answers`; 0 without files."""
    return int(pc.max(files.column("max.batch_id")).as_py() or 0) if files.num_rows else 0


def _size(files: pa.Table) -> dict[str, int]:
    rows, size = (sum_column(files, name) for name in ("num_records", "size_bytes"))
    return {"files": files.num_rows, "rows": rows, "bytes": size}


def render_answer_sizes(
    answers: Mapping[str, Any], totals: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Render the sizes as lines; none for a home without answers."""
    if not answers["log"] and not any(totals["changes"].values()):
        return []
    rows, size = (sum(part[name] for part in answers["log"].values()) for name in ("rows", "bytes"))
    stream_time, snapshot = answers["stream_time"] or "-", answers["snapshot"]
    kept = "no snapshot; pststream maintain writes one"
    if snapshot is not None:
        stored = f"{counted(snapshot['rows'], 'row')}, {byte_size(snapshot['bytes'])}"
        kept = f"snapshot of batch {snapshot['batch_id']}: {stored}"
    lines = [
        f"answers        {_by_kind(totals['changes'], 'change')}; stream time {stream_time}",
        f"               log {counted(rows, 'row')}, {byte_size(size)}; {kept}",
    ]
    done = [batch for batch in batches if batch["status"] == "done"]
    if done:
        last = done[-1]
        figures = (("candidates", "candidate"), ("changes", "change"), ("evaluations", "evaluation"))
        texts = "; ".join(_by_kind(last[name], noun) for name, noun in figures)
        lines.append(f"               batch {last['batch_id']}: {texts}")
    return lines


def _by_kind(counts: Mapping[str, int], noun: str) -> str:
    total = counted(sum(counts.values()), noun)
    return f"{total} ({', '.join(f'{count:,} {kind}' for kind, count in counts.items())})" if counts else total
