"""Write a staged file as two uncommitted data files: accepted rows for the log, all other rows for `rejects`."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrow_columns import micros, one_array
from pststream.input.row_chunks import MAX_RAW_CHARACTERS, REASONS, RETRIABLE
from pststream.pipeline.ingest.deduplicate import KEY_OF, VERDICTS, is_late
from pststream.pipeline.ingest.stage_file import ID_OF, SCHEMAS, TIME_OF
from pststream.pipeline.ingest.staged_rows import StagedRows, read_staged
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.slices import SLICE_ROWS, KeyRange, read_slices, whole_file
from pststream.state.tables import RECORD, TABLES
from pststream.tables.ledgers import log_key

TABLE_OF = {"objects": names.OBJECTS, "requests": names.REQUESTS}
FIELD_OF = {"late": "ts", "duplicate": "object_id", "before_insertion": "at"}
"""Field to blame for each reason found while appending (others: `subscription_id`)."""

FIELD_OF_COLUMN = {"effective_at": "at"}
"""Field of a deletion whose column has another name."""


@dataclass(frozen=True)
class AppendTask:
    """The input of a task that appends the rows of one staged file.

    path      of the input file, for the rejects
    horizon   objects before it (microseconds) are late
    verdicts  paths of the verdict files of this ingest
    """

    kind: str
    home: str
    ingest_id: int
    file_seq: int
    staged: StagedRows
    path: str
    horizon: int
    verdicts: tuple[str, ...]

    @property
    def weight(self) -> float:
        """The work as a share of a full task."""
        return self.staged.rows / SLICE_ROWS


@dataclass(frozen=True)
class AppendedFile:
    """The data files that a task wrote, not yet committed, and its counts; min_time: of accepted rows, microseconds."""

    file_seq: int
    rows: DataFile | None
    rejects: DataFile | None
    accepted: int
    reasons: dict[str, int]
    min_time: int | None


def append_staged_rows(task: AppendTask) -> AppendedFile:
    """Write the accepted and the rejected rows of a staged file as data files of their tables."""
    home, kind = Home(task.home), task.kind
    table = TABLES[TABLE_OF[kind]]
    rows = FileWriter(home.table(table.name), table.schema)
    rejects = FileWriter(home.table(names.REJECTS), TABLES[names.REJECTS].schema)
    verdicts = _read_verdicts(task)
    count, reasons, min_time = 0, Counter[str](), None
    for staged in read_staged([task.staged], SCHEMAS[kind].names):
        accepted, rejected = _apply_verdicts(task, staged, verdicts)
        if rejected.num_rows:
            reasons.update(rejected.column("reason").to_pylist())
            rejects.write(_reject_rows(task, rejected))
        count += accepted.num_rows
        if accepted.num_rows:
            first = int(micros(accepted.column(TIME_OF[kind])).min())
            min_time = first if min_time is None else min(min_time, first)
            rows.write(accepted.append_column("ingest_id", pa.array(np.full(accepted.num_rows, task.ingest_id))))
    return AppendedFile(task.file_seq, rows.close(), rejects.close(), count, dict(reasons), min_time)


def _read_verdicts(task: AppendTask) -> pa.Table:
    """Return the verdicts on the rows of this file, sorted by key."""
    of_file = KeyRange("key", log_key(task.file_seq, 0), log_key(task.file_seq + 1, 0) - 1)
    verdicts: Iterator[pa.RecordBatch] = read_slices(
        [whole_file(path) for path in task.verdicts], VERDICTS.names, of_file
    )
    return pa.Table.from_batches(list(verdicts), VERDICTS).sort_by("key").combine_chunks()


def _apply_verdicts(
    task: AppendTask, rows: pa.RecordBatch, verdicts: pa.Table
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the accepted rows with their log keys, and the other rows with the reason of the rules or of the log."""
    keys = rows.column("row").to_numpy() + log_key(task.file_seq, 0)
    reason, concerned = _look_up(keys, verdicts)
    if task.kind == "objects" and task.horizon > names.NO_TIME:
        late = is_late(rows, task.horizon)
        reason = pc.if_else(pa.array(late), "late", reason) if late.any() else reason
    rows = rows.append_column(KEY_OF[task.kind], pa.array(keys))
    if task.kind == "requests":
        rows = rows.append_column("subscription_key", pc.coalesce(concerned, pa.array(keys)))
    by_rule, by_log = pc.is_valid(rows.column("reason")), pc.is_valid(reason)
    if not pc.any(pc.or_(by_rule, by_log)).as_py():
        return rows, rows.slice(0, 0)
    rejected = _with_reasons(task, rows.filter(by_log), reason.filter(by_log))
    rejected = pa.concat_batches([rows.filter(by_rule), rejected])
    return rows.filter(pc.invert(pc.or_(by_rule, by_log))), rejected


def _with_reasons(task: AppendTask, rows: pa.RecordBatch, reason: pa.Array) -> pa.RecordBatch:
    """Return rows that the log rejects, with the columns of rejects; `reason` string[n]."""
    # The field that each reason concerns, and its value as text.
    blamed = (ID_OF[task.kind], TIME_OF[task.kind])
    as_text = {FIELD_OF_COLUMN.get(name, name): rows.column(name).cast(pa.string()) for name in blamed}
    raw, field = as_text[ID_OF[task.kind]], pa.repeat(ID_OF[task.kind], rows.num_rows)
    for code, name in FIELD_OF.items():
        if name in as_text:
            has_code = pc.equal(reason, code)
            raw, field = pc.if_else(has_code, as_text[name], raw), pc.if_else(has_code, name, field)
    sentences = pa.array([REASONS[code] for code in REASONS])
    details = sentences.take(pc.index_in(reason, pa.array(list(REASONS))))
    raw = pc.utf8_slice_codeunits(raw, 0, MAX_RAW_CHARACTERS)
    of_log = {"field": field, "reason": reason, "detail": details, "raw": raw}
    columns = [of_log.get(name, rows.column(name)) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _look_up(keys: np.ndarray, verdicts: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return the reason of each key, and the key of the insertion concerned; null where there is no verdict."""
    known = verdicts.column("key").to_numpy()
    position = np.searchsorted(known, keys)
    has_verdict = position < len(known)
    has_verdict[has_verdict] = known[position[has_verdict]] == keys[has_verdict]
    rows = pa.array(position, mask=~has_verdict)
    return one_array(verdicts.column("reason")).take(rows), one_array(verdicts.column("concerned")).take(rows)


def _reject_rows(task: AppendTask, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of `rejects`."""
    count = rows.num_rows
    values = {name: rows.column(name) for name in ("row", "field", "reason", "detail", "raw")}
    return pa.RecordBatch.from_pydict(
        {
            "kind": pa.repeat(task.kind, count),
            "file": pa.repeat(task.path, count),
            **values,
            "ingest_id": pa.array(np.full(count, task.ingest_id)),
            "record": _records(rows) if task.kind == "objects" else pa.nulls(count, RECORD),
        }
    )


def _records(rows: pa.RecordBatch) -> pa.StructArray:
    """Return all fields of the rejected objects that can be ingested again; null for the others."""
    is_retriable = pc.is_in(rows.column("reason"), pa.array(RETRIABLE))
    fields = [rows.column(field.name) for field in RECORD]
    return pa.StructArray.from_arrays(fields, fields=list(RECORD), mask=pc.invert(is_retriable))
