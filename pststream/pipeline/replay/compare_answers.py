"""Compare the recorded answers of `knn` and `topk` subscriptions after a batch with those of a replay.

The changes of all batches up to one add up to the answers after it. A scratch home begins without a state, so its first
batch evaluates all answers, and its changes are other ones with the same sum. Reports of `frequent_terms` are made of
the objects at each tick, and the scratch home logs only what a batch changes in them: they are not compared.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.answers.remaining_rows import OLD_CHANGES, remaining_rows
from pststream.delta_tables import last_transaction
from pststream.pipeline.answers.log_rows import CHANGE
from pststream.pipeline.engine.running_engine import get_engine
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.erasures import removed_rows
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, whole_file
from pststream.state.tables import TABLES

COLUMNS = ["batch_id", "bucket", "event", "subscription_key", "object_key", "ts", "value", "term"]
SCHEMA = pa.schema([TABLES[names.ANSWER_LOG].schema.field(name) for name in COLUMNS])
IDENTIFYING = ("subscription_key", "object_key", "ts", "value")


@dataclass(frozen=True)
class _Side:
    """The data files of `answer_log` of one of the homes, with changes."""

    files: tuple[tuple[DataFile, Slice], ...]


def compare_answers(home: Home, scratch: Home, settings: Settings, last: int) -> dict[str, bool | None]:
    """Return {"answers_equal": whether both homes have the same answers after the batch `last`}; empty without answers.

    None: the recorded answers are unknown, as rows or changes that they were made of were removed since.
    """
    if not list_data_files(home, names.ANSWER_LOG):
        return {}
    return {"answers_equal": _have_equal_answers(home, scratch, settings, last)}


def _have_equal_answers(home: Home, scratch: Home, settings: Settings, last: int) -> bool | None:
    removed = set(removed_rows(home).column("table_name").to_pylist())
    if removed & {names.OBJECTS, names.REQUESTS}:
        return None
    if last < last_transaction(home.table(names.ANSWER_LOG), OLD_CHANGES):
        return None
    recorded, replayed = (_list_changes(one, last) for one in (home, scratch))
    compare = partial(_count_differences, recorded, replayed, last)
    return not sum(get_engine(settings).run_tasks(range(home.answer_buckets), compare))


def _list_changes(home: Home, last: int) -> _Side:
    files = KeyRange("batch_id", -1, last).files(list_data_files(home, names.ANSWER_LOG))
    files = [file for file in files if file.partition["part"] == CHANGE]
    slices = (whole_file(path, rows) for path, rows in addresses_and_rows(home, names.ANSWER_LOG, files))
    return _Side(tuple(zip(files, slices, strict=True)))


def _count_differences(recorded: _Side, replayed: _Side, last: int, bucket: int) -> int:
    """Count the rows of answers of a bucket that only one side has."""
    sides = [_read_answers(side, last, bucket) for side in (recorded, replayed)]
    columns = [np.concatenate(both) for both in zip(*sides, strict=True)]
    order = np.lexsort(columns)
    same = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    return len(order) - 2 * int(same.sum())


def _read_answers(side: _Side, last: int, bucket: int) -> list[np.ndarray]:
    """Return the columns IDENTIFYING of the answers of a bucket, an object a row."""
    slices = [one for file, one in side.files if file.may_contain("bucket", bucket, bucket)]
    parts = []
    for batch in read_slices(slices, COLUMNS, KeyRange("batch_id", -1, last)):
        chosen = pc.and_(pc.equal(batch.column("bucket"), bucket), pc.is_valid(batch.column("object_key")))
        parts.append(batch.filter(chosen).cast(SCHEMA))
    changes = pa.Table.from_batches(parts, SCHEMA)
    present = changes.take(pa.array(remaining_rows(changes)))
    present = present.set_column(SCHEMA.get_field_index("ts"), "ts", present.column("ts").cast(pa.int64()))
    return [present.column(name).to_numpy() for name in IDENTIFYING]
