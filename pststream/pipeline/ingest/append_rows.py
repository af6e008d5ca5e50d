"""Write one staged file as two uncommitted data files: accepted rows for the log, all other rows for `rejects`."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.ledgers.ledger_rows import log_key
from pststream.pipeline.engine.arrow_columns import micros, whole
from pststream.pipeline.ingest.deduplicate import KEY_OF, NO_HORIZON, VERDICTS, is_late
from pststream.pipeline.ingest.stage_file import ID_OF, SCHEMAS, TIME_OF, StagedFile
from pststream.quality.reject_reasons import MAX_RAW_CHARACTERS, REASONS
from pststream.state.data_files import DataFile, FileWriter
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.state.tables import TABLES

TABLE_OF = {"objects": names.OBJECTS, "requests": names.REQUESTS}
FIELD_OF = {"late": "ts", "duplicate": "object_id", "before_insertion": "at"}
"""Field to blame for each reason found while appending (others: `subscription_id`)."""


@dataclass(frozen=True)
class AppendTask:
    """The input of a task that appends the rows of one file.

    path      of the input file, for the rejects
    horizon   objects before it (microseconds) are late
    verdicts  paths of the verdict files of this ingest
    """

    kind: str
    home: str
    ingest_id: int
    staged: StagedFile
    path: str
    horizon: int
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class AppendedFile:
    """The data files that a task wrote, not yet committed, and its counts; min_time: of accepted rows, microseconds."""

    file_seq: int
    rows: DataFile | None
    rejects: DataFile | None
    accepted: int
    reasons: dict[str, int]
    min_time: int | None


def append_staged_file(task: AppendTask) -> AppendedFile:
    """Write the accepted and the rejected rows of a staged file as data files of their tables."""
    home, kind = Home(task.home), task.kind
    rows = FileWriter(home.table(TABLE_OF[kind]), TABLES[TABLE_OF[kind]].schema)
    rejects = FileWriter(home.table(names.REJECTS), TABLES[names.REJECTS].schema)
    verdicts = _read_verdicts(task)
    count, reasons, min_time = 0, Counter[str](), None
    for staged in read_slices(task.staged.slices, SCHEMAS[kind].names):
        checked = _apply_verdicts(task, staged, verdicts)
        has_reason = pc.is_valid(checked.column("reason"))
        rejected = checked.filter(has_reason)
        reasons.update(rejected.column("reason").to_pylist())
        rejects.write(_reject_rows(task, rejected))
        accepted = checked.filter(pc.invert(has_reason))
        count += accepted.num_rows
        if accepted.num_rows:
            first = int(micros(accepted.column(TIME_OF[kind])).min())
            min_time = first if min_time is None else min(min_time, first)
            rows.write(accepted.append_column("ingest_id", pa.array(np.full(accepted.num_rows, task.ingest_id))))
    return AppendedFile(task.staged.file_seq, rows.close(), rejects.close(), count, dict(reasons), min_time)


def _read_verdicts(task: AppendTask) -> pa.Table:
    """Return the verdicts on the rows of this file, sorted by key."""
    of_file = KeyRange("key", log_key(task.staged.file_seq, 0), log_key(task.staged.file_seq + 1, 0) - 1)
    verdicts: Iterator[pa.RecordBatch] = read_slices(
        [Slice(path, 0, 2**62) for path in task.verdicts], VERDICTS.names, of_file
    )
    return pa.Table.from_batches(list(verdicts), VERDICTS).sort_by("key").combine_chunks()


def _apply_verdicts(task: AppendTask, rows: pa.RecordBatch, verdicts: pa.Table) -> pa.RecordBatch:
    """Add the log key to the rows, and write lateness and verdicts into the columns of rejects."""
    # The reason of each row, null if the log accepts it.
    keys = rows.column("row").to_numpy() + log_key(task.staged.file_seq, 0)
    reason, concerned = _look_up(keys, verdicts)
    if task.kind == "objects" and task.horizon > NO_HORIZON:
        reason = pc.if_else(pa.array(is_late(rows, task.horizon)), "late", reason)
    # The field that each reason concerns, and its value as text.
    columns = {name: rows.column(name) for name in rows.schema.names}
    as_text = {name: rows.column(name).cast(pa.string()) for name in {ID_OF[task.kind], TIME_OF[task.kind]}}
    raw, field = as_text[ID_OF[task.kind]], pa.repeat(ID_OF[task.kind], len(keys))
    for code, name in FIELD_OF.items():
        if name in as_text:
            has_code = pc.fill_null(pc.equal(reason, code), False)
            raw, field = pc.if_else(has_code, as_text[name], raw), pc.if_else(has_code, name, field)
    sentences = pa.array([REASONS[code] for code in REASONS])
    details = sentences.take(pc.index_in(reason, pa.array(list(REASONS))))
    # Rows with a reason get the columns of rejects; the others keep what the row rules wrote there.
    raw = pc.utf8_slice_codeunits(raw, 0, MAX_RAW_CHARACTERS)
    of_log = {"field": field, "reason": reason, "detail": details, "raw": raw}
    columns |= {name: pc.if_else(pc.is_valid(reason), value, columns[name]) for name, value in of_log.items()}
    columns[KEY_OF[task.kind]] = pa.array(keys)
    if task.kind == "requests":
        columns["subscription_key"] = pc.coalesce(concerned, pa.array(keys))
    return pa.RecordBatch.from_pydict(columns)


def _look_up(keys: np.ndarray, verdicts: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return the reason of each key, and the key of the insertion concerned; null where there is no verdict."""
    known = verdicts.column("key").to_numpy()
    place = np.searchsorted(known, keys)
    has_verdict = place < len(known)
    has_verdict[has_verdict] = known[place[has_verdict]] == keys[has_verdict]
    rows = pa.array(place, mask=~has_verdict)
    return whole(verdicts.column("reason")).take(rows), whole(verdicts.column("concerned")).take(rows)


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
        }
    )
