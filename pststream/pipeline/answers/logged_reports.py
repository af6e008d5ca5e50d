"""Read the reports that the batches before have logged.

Once rows of `objects` were removed, a question about the stored objects may return another report than the one that was
logged. Then the changes add up to the answers only if they begin with what the log has.

Row groups are passed over by the ticks that they have. So a batch reads what was logged of the ticks that it may
change, however long the log is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pststream.answers.remaining_rows import as_numbers, remaining_rows
from pststream.base import names
from pststream.base.sorted_keys import distinct_values
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.erasures import count_removals
from pststream.state.home import Home
from pststream.state.slices import KeyRange, Slice, read_slices, whole_file
from pststream.state.tables import TABLES

_NAMES = ["batch_id", "event", "subscription_key", "object_key", "ts", "term", "count"]
_SCHEMA = pa.schema([TABLES[names.ANSWER_LOG].schema.field(name) for name in _NAMES])
_TICK_NAMES = ["batch_id", "subscription_key", "object_key", "ts"]

REPORT_ROWS = pa.schema([("pair", pa.int64()), ("rank", pa.int64()), ("term", pa.string()), ("count", pa.int64())])
"""Columns of the rows of reports; `pair`: place of the pair of a subscription and a tick."""


@dataclass(frozen=True)
class LoggedReports:
    """The changes of reports before a batch; small, since it travels with every task.

    files     data files of `answer_log` that may have rows of reports
    up_to     the last batch before
    """

    files: tuple[tuple[DataFile, Slice], ...]
    up_to: int

    def ticks(self, keys: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return the ticks from `first` to `last` at which some subscriptions (int64[n]) have rows: int64[m].

        Ticks are microseconds, ascending.
        """
        parts = [np.empty(0, np.int64)]
        for rows in self._read(_TICK_NAMES, distinct_values(keys), first, last):
            parts.append(distinct_values(as_numbers(rows.column("ts"))))
        return distinct_values(np.concatenate(parts))

    def reports(self, keys: np.ndarray, ticks: np.ndarray) -> pa.RecordBatch:
        """Return the report of each pair of a subscription and a tick (int64[n] each, microseconds): REPORT_ROWS."""
        known, moments = distinct_values(keys), distinct_values(ticks)
        codes = np.searchsorted(known, keys) * len(moments) + np.searchsorted(moments, ticks)
        order = np.argsort(codes)
        parts, pairs = list[pa.Table](), [np.empty(0, np.int64)]
        for rows in self._read(_NAMES, known, int(moments[0]), int(moments[-1])):
            ts = as_numbers(rows.column("ts"))
            place = np.minimum(np.searchsorted(moments, ts), len(moments) - 1)
            code = np.searchsorted(known, as_numbers(rows.column("subscription_key"))) * len(moments) + place
            pair = np.minimum(np.searchsorted(codes, code, sorter=order), len(codes) - 1)
            is_asked = (moments[place] == ts) & (codes[order[pair]] == code)
            parts.append(rows.filter(pa.array(is_asked)))
            pairs.append(order[pair[is_asked]])
        logged = pa.concat_tables([_SCHEMA.empty_table(), *parts])
        places = remaining_rows(logged, names.NO_TIME)
        return _rank(np.concatenate(pairs)[places], logged.take(pa.array(places)))

    def _read(self, columns: list[str], keys: np.ndarray, first: int, last: int) -> Iterator[pa.Table]:
        """Yield columns of the rows of reports of some subscriptions (ascending) at ticks from `first` to `last`."""
        slices = [
            one
            for file, one in self.files
            if file.may_contain("ts", first, last) and file.may_contain("subscription_key", int(keys[0]), int(keys[-1]))
        ]
        schema = pa.schema([_SCHEMA.field(name) for name in columns])
        for batch in read_slices(slices, columns, KeyRange("ts", first - 1, last)):
            rows = pa.table(batch).cast(schema)
            key, batch_id = as_numbers(rows.column("subscription_key")), as_numbers(rows.column("batch_id"))
            is_report = as_numbers(rows.column("object_key")) < 0
            yield rows.filter(pa.array(is_report & np.isin(key, keys) & (batch_id <= self.up_to)))


def open_logged_reports(home: Home, batch_id: int) -> LoggedReports | None:
    """Return the reports that the batches before a batch have logged; None if questions return the same: no row of
    the logs was ever removed.
    """
    if not count_removals(home):
        return None
    files = KeyRange("batch_id", -1, batch_id - 1).files(list_data_files(home, names.ANSWER_LOG))
    # Only rows of reports have a count, and a file without a value has no bounds of the column.
    files = [file for file in files if "count" in file.low]
    slices = (whole_file(path, rows) for path, rows in addresses_and_rows(home, names.ANSWER_LOG, files))
    return LoggedReports(tuple(zip(files, slices, strict=True)), batch_id - 1)


def _rank(pair: np.ndarray, rows: pa.Table) -> pa.RecordBatch:
    """Return the rows of reports by pair (int64[n]) and rank: the greatest count, then the first word."""
    order = np.lexsort((as_numbers(rows.column("term")), -rows.column("count").to_numpy(), pair))
    pair, rows = pair[order], rows.take(pa.array(order))
    first = np.searchsorted(pair, pair)
    columns = [pa.array(pair), pa.array(np.arange(len(pair)) - first + 1)]
    columns += [pa.concat_arrays(rows.column(name).chunks) for name in ("term", "count")]
    return pa.RecordBatch.from_arrays(columns, schema=REPORT_ROWS)
