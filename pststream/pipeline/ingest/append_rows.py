"""Staged rows into the log: each row into its table or into the rejects, by one task a file."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.pipeline.engine.arrow_columns import micros, whole
from pststream.pipeline.ingest.deduplicate import FIRST, KEY_OF, VERDICTS, is_late
from pststream.pipeline.ingest.stage_files import ID_OF, SCHEMAS, TIME_OF, Staged
from pststream.quality.reject_reasons import MOST_RAW, REASONS
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.ledger import key
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES

ROWS_OF = {"objects": names.OBJECTS, "requests": names.REQUESTS}
FIELD_OF = {"late": "ts", "duplicate": "object_id", "before_insertion": "at"}
"""The field at fault by the log's reasons; `subscription_id` by all others."""


@dataclass(frozen=True)
class Accepting:
    """What a task is told about a file; `offered`: its path as offered."""

    kind: str
    home: str
    ingest_id: int
    staged: Staged
    offered: str
    horizon: int
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class Accepted:
    """What became of a file's rows; times are microseconds, of accepted rows."""

    file_seq: int
    rows: DataFile | None
    rejects: DataFile | None
    accepted: int
    reasons: dict[str, int]
    min_time: int | None


def accept(work: Accepting) -> Accepted:
    """Write the accepted and the rejected rows of a staged file as data files of their tables."""
    home, kind = Home(work.home), work.kind
    rows = FileWriter(home.table(ROWS_OF[kind]), TABLES[ROWS_OF[kind]].schema)
    rejects = FileWriter(home.table(names.REJECTS), TABLES[names.REJECTS].schema)
    verdicts = _verdicts(work)
    accepted, reasons, least = 0, Counter[str](), None
    for staged in read_slices(work.staged.slices, SCHEMAS[kind].names):
        judged = _judged(work, staged, verdicts)
        refused = pc.is_valid(judged.column("reason"))
        rejected = judged.filter(refused)
        reasons.update(rejected.column("reason").to_pylist())
        rejects.write(_reject_rows(work, rejected))
        kept = judged.filter(pc.invert(refused))
        accepted += kept.num_rows
        if kept.num_rows:
            first = int(micros(kept.column(TIME_OF[kind])).min())
            least = first if least is None else min(least, first)
            rows.write(kept.append_column("ingest_id", pa.array(np.full(kept.num_rows, work.ingest_id))))
    return Accepted(work.staged.file_seq, rows.close(), rejects.close(), accepted, dict(reasons), least)


def _verdicts(work: Accepting) -> pa.Table:
    """The verdicts on the rows of this file, in the order of keys."""
    mine = KeyRange("key", key(work.staged.file_seq, 0), key(work.staged.file_seq + 1, 0) - 1)
    found: Iterator[pa.RecordBatch] = read_slices(
        [Slice(path, 0, 2**62) for path in work.verdicts], VERDICTS.names, mine
    )
    return pa.Table.from_batches(list(found), VERDICTS).sort_by("key").combine_chunks()


def _judged(work: Accepting, rows: pa.RecordBatch, verdicts: pa.Table) -> pa.RecordBatch:
    """The rows with their log key, and with what the log found written into the columns of rejects."""
    keys = rows.column("row").to_numpy() + key(work.staged.file_seq, 0)
    reason, concerned = _of_keys(keys, verdicts)
    if work.kind == "objects" and work.horizon > FIRST:
        reason = pc.if_else(pa.array(is_late(rows, work.horizon)), "late", reason)
    hit = pc.is_valid(reason)
    columns = {name: rows.column(name) for name in rows.schema.names}
    spelled = {name: rows.column(name).cast(pa.string()) for name in {ID_OF[work.kind], TIME_OF[work.kind]}}
    raw, field = spelled[ID_OF[work.kind]], pa.repeat(ID_OF[work.kind], len(keys))
    for code, name in FIELD_OF.items():
        if name in spelled:
            of_code = pc.fill_null(pc.equal(reason, code), False)
            raw, field = pc.if_else(of_code, spelled[name], raw), pc.if_else(of_code, name, field)
    sentences = pa.array([REASONS[code] for code in REASONS])
    details = sentences.take(pc.index_in(reason, pa.array(list(REASONS))))
    told = {"field": field, "reason": reason, "detail": details, "raw": pc.utf8_slice_codeunits(raw, 0, MOST_RAW)}
    columns |= {name: pc.if_else(hit, value, columns[name]) for name, value in told.items()}
    columns[KEY_OF[work.kind]] = pa.array(keys)
    if work.kind == "requests":
        columns["subscription_key"] = pc.coalesce(concerned, pa.array(keys))
    return pa.RecordBatch.from_pydict(columns)


def _of_keys(keys: np.ndarray, verdicts: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Reason and insertion concerned of each key; null where there is no verdict."""
    known = verdicts.column("key").to_numpy()
    place = np.searchsorted(known, keys)
    found = place < len(known)
    found[found] = known[place[found]] == keys[found]
    at = pa.array(place, mask=~found)
    return whole(verdicts.column("reason")).take(at), whole(verdicts.column("concerned")).take(at)


def _reject_rows(work: Accepting, rows: pa.RecordBatch) -> pa.RecordBatch:
    count = rows.num_rows
    values = {name: rows.column(name) for name in ("row", "field", "reason", "detail", "raw")}
    return pa.RecordBatch.from_pydict(
        {
            "kind": pa.repeat(work.kind, count),
            "file": pa.repeat(work.offered, count),
            **values,
            "ingest_id": pa.array(np.full(count, work.ingest_id)),
        }
    )
