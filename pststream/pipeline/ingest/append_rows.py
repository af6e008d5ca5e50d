"""Write a staged file as two uncommitted data files: accepted rows for the log, all other rows for `rejects`."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base import names
from pststream.base.arrays import find_among
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
    of_file = KeyRange("key", log_key(task.file_seq, 0), log_key(task.file_seq + 1, 0) - 1)
    read = read_slices(map(whole_file, task.verdicts), VERDICTS.names, of_file)
    verdicts = pa.Table.from_batches(read, VERDICTS).sort_by("key").combine_chunks()
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


def _apply_verdicts(
    task: AppendTask, rows: pa.RecordBatch, verdicts: pa.Table
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the accepted rows with their log keys, and the other rows with the reason of the rules or of the log.

    verdicts: those on the rows of the file, sorted by key
    """
    keys = rows.column("row").to_numpy() + log_key(task.file_seq, 0)
    index, has_verdict = find_among(keys, verdicts.column("key").to_numpy())
    of_rows = pa.array(index, mask=~has_verdict)
    reason, concerned = (one_array(verdicts.column(name)).take(of_rows) for name in ("reason", "concerned"))
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
    id_column, time_column = ID_OF[task.kind], TIME_OF[task.kind]
    time_field = "at" if time_column == "effective_at" else time_column
    as_text = {
        id_column: rows.column(id_column).cast(pa.string()),
        time_field: rows.column(time_column).cast(pa.string()),
    }
    raw, field = as_text[id_column], pa.repeat(id_column, rows.num_rows)
    for code, name in FIELD_OF.items():
        if name in as_text:
            has_code = pc.equal(reason, code)
            raw, field = pc.if_else(has_code, as_text[name], raw), pc.if_else(has_code, name, field)
    details = pa.array(list(REASONS.values())).take(pc.index_in(reason, pa.array(list(REASONS))))
    raw = pc.utf8_slice_codeunits(raw, 0, MAX_RAW_CHARACTERS)
    of_log = {"field": field, "reason": reason, "detail": details, "raw": raw}
    columns = [of_log.get(name, rows.column(name)) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _reject_rows(task: AppendTask, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of `rejects`; `record` has all fields of the objects that can be ingested again."""
    count = rows.num_rows
    values = {name: rows.column(name) for name in ("row", "field", "reason", "detail", "raw")}
    record = pa.nulls(count, RECORD)
    if task.kind == "objects":
        is_retriable = pc.is_in(rows.column("reason"), pa.array(RETRIABLE))
        fields = [rows.column(field.name) for field in RECORD]
        record = pa.StructArray.from_arrays(fields, fields=list(RECORD), mask=pc.invert(is_retriable))
    return pa.RecordBatch.from_pydict(
        {
            "kind": pa.repeat(task.kind, count),
            "file": pa.repeat(task.path, count),
            **values,
            "ingest_id": pa.array(np.full(count, task.ingest_id)),
            "record": record,
        }
    )
