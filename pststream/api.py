"""Read a home from Python as Arrow tables: matches, objects, requests, SQL queries; `pststream.open` returns it."""

import datetime as dt
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.reports.reading.pairs import PAIR_SCHEMA, PairStream, pair_table
from pststream.reports.reading.standing_answers import ANSWERS, CHANGES, StandingAnswers
from pststream.reports.views import run_query
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import TableReader


class OpenedHome:
    """A home that is read, never written. Each method reads the tables as they are when it is called.

    path    address of the home
    tables  table name -> address of its Delta table, for `spark.read.format("delta").load(...)` and other programs
    The tables and their columns: docs/tables.md.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._home = Home(path).check()
        self.path = self._home.path
        self.tables = {name: self._home.table(name) for name in TABLES}

    def __repr__(self) -> str:
        return f"pststream.open({self.path!r})"

    def matches(self, since: dt.datetime | None = None) -> pa.Table:
        """Read the matched pairs, a row for each pair; the rows, columns and order are those of `export matches`.

        since  only objects with ts >= this; a time without a zone is in UTC
        Columns: object_id, owner, subscription_id, payload, attributes (JSON or null): string; ts: timestamp[us, UTC];
        batch_id, plan_version: int64. Pairs of unfinished batches and retracted pairs are left out.
        """
        return self.matches_reader(since).read_all()

    def matches_reader(self, since: dt.datetime | None = None) -> pa.RecordBatchReader:
        """Return a reader of the same pairs that reads some at a time: memory does not grow with the matches."""
        stream = PairStream(self._home, since)
        batches = (batch for pairs in stream for batch in pair_table(pairs, stream.inserted).to_batches())
        return pa.RecordBatchReader.from_batches(PAIR_SCHEMA, batches)

    def objects(self) -> pa.Table:
        """Read the accepted objects, by data file in the order of the log; the columns are those of the table."""
        return self.objects_reader().read_all()

    def objects_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the same objects that reads some at a time."""
        return self._reader(names.OBJECTS, "object_key")

    def requests(self) -> pa.Table:
        """Read the accepted requests, by data file in the order of the log; an insertion is a subscription."""
        return self.requests_reader().read_all()

    def requests_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the same requests that reads some at a time."""
        return self._reader(names.REQUESTS, "request_key")

    def answers(self) -> pa.Table:
        """Read the answers of subscriptions with memory after the last batch; the rows of `export answers`."""
        return pa.concat_tables([ANSWERS.empty_table(), *StandingAnswers(TableReader(self._home)).answers()])

    def changes(self, since_batch: int = 0) -> pa.Table:
        """Read what the batches from `since_batch` on changed in these answers; the rows of `export changes`."""
        changes = StandingAnswers(TableReader(self._home)).changes(since_batch)
        return pa.concat_tables([CHANGES.empty_table(), *changes])

    def sql(self, query: str) -> pa.Table:
        """Run a query on the views and tables with DuckDB (extra `sql`); return its rows.

        query  DuckDB's SQL. Views: pairs, subscriptions, batches_done, rejects_by_file; tables: those of `tables`
        Raises UsageError for a query that DuckDB does not accept, MissingExtra if DuckDB is not installed.
        """
        return run_query(self._home, query, self.tables)

    def ask(self, questions: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Answer questions about the stored objects; return the answers in the order of the questions and ranks.

        questions  records with the fields of a line of a question file (docs/questions.md); a question without
                   `question_id` gets its position, from 1
        The columns are those of the answers of `pststream ask`, null where a kind has none. Raises UsageError for
        questions that are not valid, with number, field and reason of each.
        """
        # Imported on first use: numba takes 0.2 s to import.
        from pststream.search.ask import stream_answers
        from pststream.search.read_questions import read_question_records

        settings = self._home.load_settings()
        answered = stream_answers(self._home, settings, read_question_records(questions, settings))
        if answered.rejects:
            faults = [f"question {r['row']}: {r['field']}: {r['reason']}: {r['detail']}" for r in answered.rejects]
            raise UsageError("\n".join(faults), "docs/questions.md lists the fields")
        return answered.read_all()

    def _reader(self, name: str, key: str) -> pa.RecordBatchReader:
        reader = TableReader(self._home)
        schema = TABLES[name].schema
        files = reader.files(name, key)

        def batches() -> Iterator[pa.RecordBatch]:
            for _, file in files:
                for batch in reader.batches_of(name, file, schema.names):
                    yield batch.cast(schema)

        return pa.RecordBatchReader.from_batches(schema, batches())
