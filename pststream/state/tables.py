"""Declare every Delta table of a home: columns with types, units and meaning, key, partitions, and the writer.

Tables that grow with the data are written by Spark's tasks (state/data_files.py); the small control tables
(`writer="control"`) are written by the driver. No commit needs a JVM: state/log_entries.py makes them all. Times are
microseconds since 1970 in UTC where the type is timestamp.
"""

from dataclasses import dataclass

import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import ATTRIBUTES, BREAKS, TIME, Column
from pststream.queries.kinds.registry import request_columns
from pststream.queries.shapes.registry import PIECE_COLUMNS

INT, FLOAT, TEXT, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()
IDS, FLOATS, TEXTS = (pa.list_(kind) for kind in (INT, FLOAT, TEXT))
SECONDS, COUNTS = pa.map_(TEXT, FLOAT), pa.map_(TEXT, INT)
RECORD = pa.struct(
    [
        ("object_id", TEXT),
        ("ts", TIME),
        ("lon", FLOAT),
        ("lat", FLOAT),
        ("text", TEXT),
        ("text_breaks", BREAKS),
        ("attributes", ATTRIBUTES),
    ]  # fmt: skip
)
RESULTS = pa.list_(pa.struct([("name", TEXT), ("value", FLOAT), ("success", BOOL)]))

SOUGHT = ("object_id", "lon", "lat", "alpha")
"""Columns that are neither integers nor times and that queries filter by, or whose absence in a file matters."""


def has_bounds(column: pa.Field) -> bool:
    """Whether data files record the least and the greatest value of a column: integers, times and those of SOUGHT."""
    return bool(pa.types.is_int64(column.type) or pa.types.is_timestamp(column.type) or column.name in SOUGHT)


@dataclass(frozen=True)
class Table:
    """A Delta table; `key` names the columns that identify a row, `partitions` those that partition its files.

    append_only: rows are never deleted or changed. Of the other tables, planning deletes what a killed planner left.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    writer: str = "spark"
    partitions: tuple[str, ...] = ()
    append_only: bool = True

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of rows and data files, in the declared order."""
        return pa.schema([pa.field(c.name, c.type, nullable=True) for c in self.columns])

    @property
    def delta_schema(self) -> pa.Schema:
        """The schema in the table's log: NOT NULL where a column has no nulls, and comments."""
        fields = [pa.field(c.name, c.type, c.nullable) for c in self.columns]
        return pa.schema(
            [f.with_metadata({"comment": c.meaning}) if c.meaning else f for f, c in zip(fields, self.columns)]
        )


_BUCKET = "bucket of the subscription, from 0; home.json has the number of buckets"
_VALUE = "knn: distance, metres; topk: negative score"


_FILE = "the file of the question, see question_files"


KEY = "position in the log: file_seq << 32 | row"
OPTIONS = "JSON of the reader's options, which differ by format and version"

_SHARED = "if terms is null and this is false, the units share the subscriptions, see unit of worker_index"

_TABLES = (
    Table(
        names.OBJECTS,
        "accepted objects, in the order of the log",
        (
            Column("object_key", INT, KEY),
            Column("object_id", TEXT, "as published"),
            Column("ts", TIME, "event time"),
            Column("lon", FLOAT, "degrees, WGS84"),
            Column("lat", FLOAT, "degrees, WGS84"),
            Column("text", TEXT, "as published; empty if none"),
            Column(
                "text_breaks",
                BREAKS,
                "bytes of `text` before each further column that was joined into it: no phrase goes on there",
                True,
            ),
            Column("terms", IDS, "distinct term ids, ascending"),
            Column("attributes", ATTRIBUTES, "columns of the file that are no field: type and value of each", True),
            Column("ingest_id", INT, "the ingest that wrote the row"),
        ),
        ("object_key",),
    ),
    Table(
        names.REQUESTS,
        "accepted requests, in the order of the log; an insertion is a subscription",
        (
            Column("request_key", INT, KEY),
            Column("op", TEXT, "insert or delete; a replacement is stored as an insertion"),
            Column("owner", TEXT, "who asks: the folder that the file landed in, or --owner; empty: nobody is named"),
            Column("subscription_id", TEXT, "as given by the subscriber; unique for an owner"),
            Column("subscription_key", INT, "request_key of the insertion that is inserted or deleted"),
            Column("replaced_key", INT, "insert: subscription_key of what a replacement ends, if it ends one", True),
            Column(
                "effective_at", TIME, "insert: start of validity; delete: end (exclusive), also of what is replaced"
            ),
            Column("expires_at", TIME, "insert: end of validity (exclusive); null is never", True),
            *request_columns(),
            Column("room", INT, "entries that it may take, see docs/input.md; delete: 0"),
            Column("postings", INT, "those of them that are postings of the index; delete: 0"),
            Column("kind", TEXT, "insert: kind of query", True),
            Column("payload", TEXT, "JSON of the field `payload`, which the subscriber chooses", True),
            Column("conditions", TEXT, "insert: JSON of the field `where`, see docs/input.md; null: none", True),
            Column("condition_names", INT, "insert: names of attributes in `conditions`; null: none", True),
            Column("ingest_id", INT, "the ingest that wrote the row"),
        ),
        ("request_key",),
    ),
    Table(
        names.REJECTS,
        "rows that were not accepted",
        (
            Column("kind", TEXT, "objects, requests or questions"),
            Column("file", TEXT, "path as given"),
            Column("row", INT, "number of the row in the file, from 1; 0: the whole file"),
            Column("field", TEXT, "the invalid field; empty if the whole row is invalid"),
            Column("reason", TEXT, "code, see docs/input.md"),
            Column("detail", TEXT, "the same in a sentence"),
            Column("raw", TEXT, "the value, at most 1,000 characters", True),
            Column("ingest_id", INT, "the ingest that wrote the row; questions: the last ingest before"),
            Column("record", RECORD, "objects that are future, late or duplicate: all fields, for a retry", True),
        ),
        ("ingest_id", "file", "row"),
    ),
    Table(
        names.FILES,
        "ledger of ingested files, withdrawals and changes of the term statistics: a row when an ingest starts, another"
        " when it is done, which counts",
        (
            Column("file_seq", INT, "position of the file in the log"),
            Column("ingest_id", INT, "the ingest, which may have several files"),
            Column("kind", TEXT, "objects or requests"),
            Column("path", TEXT, "as given"),
            Column("sha256", TEXT, "of the content"),
            Column("bytes", INT, "size of the file"),
            Column("options", TEXT, OPTIONS),
            Column("status", TEXT, "started or done"),
            Column("rows", INT, "number of the last row", True),
            Column("accepted", INT, "rows accepted", True),
            Column("rejected", INT, "rows rejected", True),
            Column("attributed", INT, "objects: rows accepted with attributes", True),
            Column("watermark", TIME, "objects: watermark of the log before the file; null if none", True),
            Column("min_ts", TIME, "least ts accepted (objects), least effective_at accepted (requests)", True),
            Column("max_ts", TIME, "greatest ts that passed the row rules; withdrawal: watermark after it", True),
            Column("started_at", TIME, "when the ingest started"),
            Column("owner", TEXT, "requests: their owner", True),
            Column(
                "live",
                IDS,
                "requests: number, room and postings of the live subscriptions of the owner after the file, at most",
                True,
            ),
            Column("withdrawal_id", INT, "the withdrawal that takes this position; null: a file", True),
            Column(
                "statistics_version",
                INT,
                "the term statistics in force from this position of the request log on; null: a file",
                True,
            ),
        ),
        ("file_seq", "status"),
        writer="control",
    ),
    Table(
        names.VOCABULARY,
        "frequency of terms in the sample a plan was made from; ranks terms for the index",
        (
            Column("plan_version", INT, "the plan"),
            Column("term_id", INT, "see queries/text/tokenizer.py"),
            Column("term", TEXT, "the word, where the sample shows it", True),
            Column("objects", INT, "sampled objects that have it"),
            Column("subscriptions", INT, "sampled subscriptions that have it"),
        ),
        ("plan_version", "term_id"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLANS,
        "partition plans; the greatest version is the current one",
        (
            Column("plan_version", INT, "from 1"),
            Column(
                "index_version", INT, "of the index and vocabulary that it uses; its own, unless made by a migration"
            ),
            Column("retiring_version", INT, "older plan that still serves older subscriptions; null: none", True),
            Column(
                "retiring_to", INT, "greatest subscription_key under the older plan; this plan serves the rest", True
            ),
            Column(
                "placement_version",
                INT,
                "plan whose counts and loads place subscriptions, see placements; null: shares by space and text",
                True,
            ),
            Column(
                "topk_version",
                INT,
                "plan version whose row of topk_plans serves topk; null: candidates are found by answer bucket",
                True,
            ),
            Column("planner", TEXT, "name of the planner"),
            Column("workers", INT, "number of workers"),
            Column("index_workers", IDS, "`worker` of worker_index for workers 0, 1, 2 ...; null: 0, 1, 2 ...", True),
            Column("units", INT, "number of units"),
            Column("west", FLOAT, "western bound of the raster, degrees"),
            Column("south", FLOAT, "its southern bound"),
            Column("east", FLOAT, "its eastern bound"),
            Column("north", FLOAT, "its northern bound"),
            Column("columns", INT, "of the raster"),
            Column("rows", INT, "of the raster"),
            Column("load_total", FLOAT, "Definition 1, summed over workers"),
            Column("load_max", FLOAT, "of the most loaded worker"),
            Column("load_min", FLOAT, "of the least loaded worker"),
            Column("imbalance", FLOAT, "load_max / load_min"),
            Column("worker_loads", FLOATS, "Definition 1, of each worker"),
            Column("options", TEXT, "JSON: cost constants, sample sizes, options with names of the planner"),
            Column("seconds", FLOAT, "duration of planning"),
            Column("created_at", TIME, "when it was made"),
        ),
        ("plan_version",),
        writer="control",
    ),
    Table(
        names.PLAN_UNITS,
        "the units of each plan",
        (
            Column("plan_version", INT, "the plan"),
            Column("unit", INT, "from 0"),
            Column("worker", INT, "the worker that serves it"),
            Column("leaf", INT, "the leaf; its units divide it by text, or its objects, see plan_nodes"),
            Column("cell_runs", IDS, "raster cells of the leaf: start, length, start, length ..."),
            Column("terms", IDS, "terms that it serves; null: all terms of the leaf", True),
            Column("takes_other_terms", BOOL, f"whether it shares the terms that no unit lists; {_SHARED}"),
            Column("load", FLOAT, "objects x subscriptions of the sample, scaled"),
            Column("objects", FLOAT, "objects of the sample, scaled"),
            Column("subscriptions", FLOAT, "subscriptions of the sample, scaled"),
        ),
        ("plan_version", "unit"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.WORKER_INDEX,
        "the subscriptions of each worker; index segments are built from its data files (matching/segments.py)",
        (
            Column("index_version", INT, "index version of the plans that use it, see plans"),
            Column("worker", INT, "the worker, see index_workers of plans; -1: a deletion, which every worker reads"),
            Column("subscription_key", INT, "see requests"),
            *PIECE_COLUMNS,
            Column("clauses", pa.list_(IDS), "conjunctive normal form; the first clause is the posted one", True),
            Column("verified", pa.list_(IDS), "see requests; tested at the objects that satisfy `clauses`", True),
            Column("phrases", pa.list_(IDS), "see requests", True),
            Column("created_at", INT, "start of validity, microseconds", True),
            Column("end_at", INT, "end of validity (exclusive), microseconds; 2^63-1 is never"),
            Column("batch_id", INT, "the batch that wrote it; 0: not known"),
            Column("kind", TEXT, "kind of query; null is range", True),
            Column("unit", INT, "the unit that it belongs to under a plan that shares by subscription", True),
        ),
        ("index_version", "worker", "subscription_key", "west", "south"),
        partitions=("index_version", "worker"),
        append_only=False,
    ),
    Table(
        names.MIGRATIONS,
        "moves of changes of the plan; a row for each move, in their order",
        (
            Column("plan_version", INT, "the plan that the migration made; valid once `plans` has it"),
            Column("plan_version_before", INT, "the plan that it changed"),
            Column("kind", TEXT, "local, global, retire, undo, or plan: another number of workers"),
            Column(
                "reason",
                TEXT,
                "split or merge (of a cell by text), the method that chose what moves (gr, dp, si, ra, pm, fm), the"
                " operation of the method shift (split_merge, shift, corner_shift), the planner, retire, undo or"
                " undo of topk",
            ),
            Column("move", INT, "from 0"),
            Column("origin", INT, "worker that the move is from; -1: several", True),
            Column("target", INT, "worker that the move is to; -1: several", True),
            Column("cells", IDS, "raster cells that move"),
            Column("terms", IDS, "terms of these cells that move; null: all", True),
            Column("subscriptions", INT, "index rows copied to targets, of the whole migration"),
            Column("bytes", INT, "size of these rows, uncompressed"),
            Column("expected_gain", FLOAT, "share of the greatest load that the whole migration saves"),
            Column("load_before", FLOATS, "load of each worker on the sample, Definition 1, seconds"),
            Column("load_after", FLOATS, "the same after it; for a global one, once the old plan is retired"),
            Column("decided_at", TIME, "time of the decision"),
        ),
        ("plan_version", "move"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.UNIT_LOADS,
        "load of each unit in each batch",
        (
            Column("batch_id", INT, "the batch"),
            Column(
                "plan_version",
                INT,
                "the plan of the unit, of a unit of topk the version of topk_plans; where unit is"
                f" {names.WHOLE_WORKER}, that of the batch",
            ),
            Column("worker", INT, f"the worker that served it; {names.UNIT_OF_TOPK}: unit of the plan of topk"),
            Column("unit", INT, f"unit of the plan; {names.WHOLE_WORKER}: total of the worker"),
            Column("objects", INT, "objects matched in the unit"),
            Column("subscriptions", INT, "subscriptions stored; of workers and units of topk"),
            Column("candidates", INT, "postings checked; of a unit of topk objects that may enter answers"),
            Column("matches", INT, "pairs found"),
            Column(
                "cpu_seconds",
                FLOAT,
                f"of the worker, with the building of new segments and the writing of matches, where unit is"
                f" {names.WHOLE_WORKER}; of a unit of topk: of its search; else 0",
            ),
        ),
        ("batch_id", "plan_version", "worker", "unit"),
        writer="control",
    ),
    Table(
        names.MATCHES,
        "a row for each object, worker and batch with a match; the view `pairs` has a row for each pair",
        (
            Column("object_key", INT, "see objects"),
            Column("object_id", TEXT, "as published"),
            Column("ts", TIME, "event time of the object"),
            Column("subscription_keys", IDS, "subscriptions that the object matched, see requests"),
            Column("retracted", BOOL, "true: retracted, by a deletion read later or a withdrawal"),
            Column("worker", INT, "the worker that matched; -1 in a retraction"),
            Column("batch_id", INT, "the batch that wrote the row"),
            Column("plan_version", INT, "plan of the batch"),
        ),
        ("object_key", "worker", "batch_id"),
    ),
    Table(
        names.BATCHES,
        "ledger of micro-batches: a row when one starts, further ones if its range is made smaller, another when"
        " it is done; the last row counts",
        (
            Column("batch_id", INT, "from 1"),
            Column("status", TEXT, "started or done"),
            Column("plan_version", INT, "plan of the batch"),
            Column("objects_after", INT, "object_key range: greater than this"),
            Column("objects_to", INT, "... up to this"),
            Column("requests_after", INT, "request_key range: greater than this"),
            Column("requests_to", INT, "... up to this"),
            Column("objects_version", INT, "Delta version of `objects` that was read"),
            Column("requests_version", INT, "Delta version of `requests` that was read"),
            Column("objects", INT, "objects in the range", True),
            Column("discarded", INT, "objects without a live term, or withdrawn, sent to no worker", True),
            Column("requests", INT, "requests in the range", True),
            Column("matches", INT, "pairs written", True),
            Column("retractions", INT, "pairs retracted", True),
            Column("seconds_by_step", SECONDS, "seconds of each step; *_cpu: CPU seconds within them", True),
            Column("started_at", TIME, "when it started"),
            Column("finished_at", TIME, "when it was done", True),
            Column("stream_time", TIME, "greatest ts of the objects up to objects_to; null: none", True),
            Column("removals", INT, "commits that removed rows of objects or requests before it"),
            Column("candidates", COUNTS, "by kind: pairs of an object and a subscription with memory", True),
            Column("changes", COUNTS, "by kind: rows that entered or left answers", True),
            Column("evaluations", COUNTS, "by kind: answers or reports computed from stored objects", True),
            Column("engine", TEXT, "where tasks ran: threads, Spark and its host or master; null: nowhere", True),
        ),
        ("batch_id", "status"),
        writer="control",
    ),
    Table(
        names.QUARANTINE,
        "quarantined files: a row when one is quarantined, another when it is discarded; released ones are in `files`",
        (
            Column("hold_id", INT, "from 1"),
            Column("kind", TEXT, "objects or requests"),
            Column("path", TEXT, "as given"),
            Column("copy", TEXT, "path of the copy, below the home; null: the quarantine was full", True),
            Column("head", TEXTS, "the first characters of a file that was not copied"),
            Column("sha256", TEXT, "of the content"),
            Column("bytes", INT, "size of the file"),
            Column("options", TEXT, OPTIONS),
            Column("reasons", TEXTS, "a sentence for each failed expectation"),
            Column("status", TEXT, "held (in quarantine) or discarded"),
            Column("written_at", TIME, "when the row was written"),
        ),
        ("hold_id", "status"),
        writer="control",
    ),
    Table(
        names.QUALITY_RESULTS,
        "results of quality checks: a row for each file that the landing gate or a suite checked, and each daily check",
        (
            Column("checked_at", TIME, "time of the check"),
            Column(
                "suite",
                TEXT,
                "objects or requests (landing gate), tables (daily checks), or folder and name of a suite",
            ),
            Column("subject", TEXT, "path of the file, or name of the check"),
            Column("success", BOOL, "whether every expectation was met"),
            Column("failed", TEXTS, "a sentence for each failed expectation"),
            Column("results", RESULTS, "each expectation; value is null for a text, which `failed` has"),
            Column("batch_id", INT, "daily checks: the last batch that the check covered", True),
        ),
        ("suite", "subject", "checked_at"),
        writer="control",
    ),
    Table(
        names.DELIVERIES,
        "delivery position of each sink, a row each time it is saved; the furthest position counts",
        (
            Column("sink", TEXT, "its name"),
            Column("batch_id", INT, "the batch; all due batches before it are delivered"),
            Column("position", INT, "messages of the batch that are delivered or refused, in their order"),
            Column("complete", BOOL, "the batch has no more messages"),
            Column("message_limit", INT, "limit of the batch's messages, see sinks; 0: none"),
            Column("limit_seconds", INT, "period of that limit"),
            Column("delivered", INT, "messages delivered since the sink's previous row"),
            Column("refused", INT, "messages that became dead letters since then"),
            Column("failures", INT, "tries that failed since then"),
            Column(
                "state",
                TEXT,
                "ok, behind (delivery ran out of time), down, failed (an error of PSTStream), stuck (no answer)",
            ),
            Column("reason", TEXT, "why it is down", True),
            Column("written_at", TIME, "when the row was written"),
        ),
        ("sink", "batch_id", "position", "written_at"),
        writer="control",
    ),
    Table(
        names.DEAD_LETTERS,
        "messages that a sink refused permanently; a row `delivered` supersedes other rows of its id",
        (
            Column("sink", TEXT, "the sink that refused it"),
            Column("message_id", TEXT, "id of the message"),
            Column("batch_id", INT, "batch of the message"),
            Column("owner", TEXT, "owner of the subscription of the message"),
            Column("subscription_id", TEXT, "subscription of the message"),
            Column("kind", TEXT, "matched, retracted, entered, left, report or digest"),
            Column("status", TEXT, "dead, or delivered (by a replay)"),
            Column("reason", TEXT, "why it was refused", True),
            Column("message", TEXT, "the message as it is sent, JSON; null once it is delivered", True),
            Column("written_at", TIME, "when the row was written"),
        ),
        ("sink", "message_id", "status"),
        writer="control",
    ),
    Table(
        names.ERASURES,
        "what `erase` and the setting `keep` removed: a row for each commit that removed rows of a table",
        (
            Column("erasure_id", INT, "from 1; the rows of one run share it"),
            Column("cause", TEXT, "erase (rows of given ids), or keep (rows that were too old)"),
            Column("table_name", TEXT, "the table that lost rows"),
            Column("transaction_id", INT, "txnVersion of the commit; a row counts once its table has it"),
            Column("rows_removed", INT, "rows removed, or changed where a row has more than what was erased"),
            Column("matched_objects", INT, "objects: those that batches had matched"),
            Column("batch_ids", IDS, "matches: batches that lost pairs, ascending"),
            Column("pairs", IDS, "matches: pairs that each of these batches lost"),
            Column("retractions", IDS, "matches: retractions that each of these batches lost"),
            Column("requested_by", TEXT, "login name"),
            Column("erased_at", TIME, "when"),
            Column("files_until", TIME, "the first maintain after it deletes the last files that hold the rows"),
        ),
        ("table_name", "transaction_id"),
        writer="control",
    ),
    Table(
        names.WITHDRAWALS,
        "withdrawn objects, and requests that were set aside; a row counts once `files` has its withdrawal",
        (
            Column("withdrawal_id", INT, "from 1; the objects of one run share it"),
            Column("log_key", INT, "object_key of the object, or request_key of a request that was set aside"),
        ),
        ("withdrawal_id", "log_key"),
        writer="control",
    ),
    Table(
        names.TERM_STATISTICS,
        "how many objects have each term, by version; a version counts once `files` has it",
        (
            Column("statistics_version", INT, "from 1; `files` has the number of objects in its options"),
            Column("term_id", INT, "see queries/text/tokenizer.py"),
            Column("documents", INT, "objects that have the term"),
        ),
        ("statistics_version", "term_id"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.QUESTION_FILES,
        "ledger of answered files of questions: a row when the answering starts, another when it is done, which counts",
        (
            Column("question_file", INT, "from 1"),
            Column("path", TEXT, "as given"),
            Column("sha256", TEXT, "of the content"),
            Column("bytes", INT, "size of the file"),
            Column("options", TEXT, "JSON of the settings by which the questions are read"),
            Column("status", TEXT, "started or done"),
            Column("ingest_id", INT, "the last ingest before it, which its rejects name; 0: none"),
            Column("objects_to", INT, "position in the log up to which objects and withdrawals count"),
            Column("questions", INT, "questions of the file, with the rejected ones", True),
            Column("rejected", INT, "questions rejected; a file that cannot be read counts as one", True),
            Column("rows", INT, "rows of the answers", True),
            Column("seconds_by_step", SECONDS, "seconds of each step", True),
            Column("started_at", TIME, "when the answering started"),
            Column("finished_at", TIME, "when it was done", True),
        ),
        ("question_file", "status"),
        writer="control",
    ),
    Table(
        names.QUESTION_ANSWERS,
        "answers of files of questions; a row counts once `question_files` has its file with the status done",
        (
            Column("question_file", INT, _FILE),
            Column("row", INT, "number of the question's row in the file, from 1"),
            Column("question_id", TEXT, "as given"),
            Column("kind", TEXT, "kind of question"),
            Column("rank", INT, "from 1"),
            Column("object_key", INT, "the object; null where the answer is terms", True),
            Column("object_id", TEXT, "its id", True),
            Column("ts", TIME, "event time of the object", True),
            Column("distance_m", FLOAT, "knn, topk: distance of the object, metres", True),
            Column("score", FLOAT, "topk: score of the object", True),
            Column("term", TEXT, "frequent_terms: a word", True),
            Column("count", INT, "frequent_terms: objects that have it", True),
            Column("term_statistics_version", INT, "topk: the statistics that weigh words", True),
        ),
        ("question_file", "row", "rank"),
    ),
    Table(
        names.QUESTIONS,
        "what the questions of answered files asked for, as a model of their cost needs it",
        (
            Column("question_file", INT, _FILE),
            Column("row", INT, "number of the question's row in the file, from 1"),
            Column("kind", TEXT, "kind of question"),
            Column("west", FLOAT, "western bound of the region, or longitude of the point, degrees"),
            Column("south", FLOAT, "southern bound, or latitude of the point"),
            Column("east", FLOAT, "eastern bound, less than `west` across the antimeridian"),
            Column("north", FLOAT, "northern bound"),
            Column("clauses", pa.list_(IDS), "conjunctive normal form of the keywords; empty: none"),
            Column("conditions", TEXT, "JSON of the field `where`; null: none", True),
            Column("window_after", TIME, "objects with a later ts count; null: all up to `window_to`", True),
            Column("window_to", TIME, "the last ts that counts; null: no object is stored", True),
            Column("k", INT, "greatest number of rows; null: all", True),
            Column("rows", INT, "rows of the answer"),
            Column("distance_m", FLOAT, "knn, topk: distance of the last row, metres", True),
        ),
        ("question_file", "row"),
    ),
    Table(
        names.ANSWER_LOG,
        "changes of answers (knn, topk) and of reports (frequent_terms), by batch. "
        "Each batch commits its changes of answers first, and its changes of reports in a second commit",
        (
            Column("batch_id", INT, "the batch"),
            Column("bucket", INT, _BUCKET),
            Column("part", TEXT, "state, window: what the next batch needs; change: what readers see"),
            Column(
                "event",
                TEXT,
                "state: entry (an object enters the buffer), threshold, or reset (a threshold; what was in the buffer"
                " before the batch is void); change: entered or left (the answer); window: boundary (the last"
                " object before the window of the `count` most recent ones, null: there is none)",
            ),
            Column("subscription_key", INT, "see requests"),
            Column("object_key", INT, "see objects; null: the row has none", True),
            Column("ts", TIME, "event time of the object; frequent_terms: the tick", True),
            Column("value", pa.float32(), f"{_VALUE}; threshold, reset: greatest value that the buffer keeps", True),
            Column("rank", pa.int32(), "from 1; entered: after the batch; left: before it", True),
            Column("term", TEXT, "frequent_terms: a word; the empty text: the report has none", True),
            Column("count", INT, "frequent_terms: objects that have it", True),
        ),
        ("batch_id", "bucket", "event", "subscription_key", "object_key", "ts", "rank", "count"),
        partitions=("part",),
        append_only=False,
    ),
    Table(
        names.ANSWERS,
        "snapshots of the buffers of subscriptions with memory, by bucket; the greatest batch counts",
        (
            Column("batch_id", INT, "the last batch that the snapshot contains"),
            Column("bucket", INT, _BUCKET),
            Column("subscription_key", INT, "see requests"),
            Column("threshold", pa.float32(), "greatest value that the buffer keeps"),
            Column("limit_object_key", INT, "the last object that the buffer keeps; null: it keeps all", True),
            Column("limit_ts", TIME, "event time of that object", True),
            Column("object_key", INT, "see objects; null: the buffer is empty", True),
            Column("ts", TIME, "event time of the object", True),
            Column("value", pa.float32(), _VALUE, True),
        ),
        ("batch_id", "bucket", "subscription_key", "object_key"),
        append_only=False,
    ),
    Table(
        names.PLACEMENT_COUNTS,
        "objects of the sample of a plan that shares by subscription, by raster cell and term",
        (
            Column("plan_version", INT, "the plan"),
            Column("term_id", INT, "see queries/text/tokenizer.py; the term of subscriptions without keywords: all"),
            Column("cell", INT, "raster cell: row x columns + column"),
            Column("objects", INT, "sampled objects of the cell that have it"),
        ),
        ("plan_version", "term_id", "cell"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLACEMENTS,
        "loads by which a plan that shares by subscription places subscriptions, after each step that has placed some",
        (
            Column("plan_version", INT, "the plan that was made for the sample, see placement_version of plans"),
            Column("batch_id", INT, "the batch; 0: the index of the plan was built; -1: the plan was made"),
            Column("step", TEXT, "plan, rebuild; of a batch: requests, thresholds (knn, after their first batch)"),
            Column("present_to", INT, "greatest request_key when the plan was made; later subscriptions are new ones"),
            Column("object_scale", FLOAT, "stored objects for each sampled one"),
            Column("loads", FLOATS, "cost of the subscriptions of each unit, in sampled objects"),
            Column("areas", INT, "rows of placement_areas so far"),
        ),
        ("plan_version", "batch_id", "step"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLAN_NODES,
        "the tree of each plan that divides objects by text, or whose planner made it as a tree",
        (
            Column("plan_version", INT, "the plan"),
            Column("node", INT, "from 0, the root; parents before their children"),
            Column("parent", INT, "the node above; null: the root", True),
            Column("first_column", INT, "of its rectangle of raster cells"),
            Column("first_row", INT, "of its rectangle, from the south"),
            Column("last_column", INT, "of its rectangle"),
            Column("last_row", INT, "of its rectangle"),
            Column("by_text", BOOL, "whether its children share its rectangle and divide its objects by text"),
            Column("unit", INT, "the unit of a leaf; null: it has children", True),
            Column("objects", INT, "objects of the sample that came to it"),
            Column("terms", IDS, "keywords of queries in its rectangle, ascending; null: not by_text", True),
            Column("asked", IDS, "for each of terms, the queries that have it", True),
            Column("holders", IDS, "for each of terms, bit c is set if the keyword list of child c has it", True),
            Column("queries", IDS, "of the root: number of queries with 0, 1, .. keywords", True),
        ),
        ("plan_version", "node"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLACEMENT_AREAS,
        "areas of the parts in which a plan of dkm_sks has placed the subscriptions that were present, as raster cells",
        (
            Column("plan_version", INT, "see placements"),
            Column("number", INT, "from 0, in the order of assignment"),
            Column("first_column", pa.int32(), "column of the first raster cell"),
            Column("first_row", pa.int32(), "its row"),
            Column("last_column", pa.int32(), "column of the last raster cell"),
            Column("last_row", pa.int32(), "its row"),
        ),
        ("plan_version", "number"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.TOPK_PLANS,
        "plans of topk subscriptions; topk_version of plans says which one is in force",
        (
            Column("plan_version", INT, "the plan version that was made for it"),
            Column("planner", TEXT, "name of the planner"),
            Column("way", TEXT, "what the first level divides: space_first, words_first"),
            Column("first", INT, "parts of the first level"),
            Column("second", INT, "parts of the second level in each; units = first x second"),
            Column("is_prefix", BOOL, "whether subscriptions are held for the words of their loose prefixes alone"),
            Column("space_cuts", FLOATS, "cuts of the kd-trees, one tree after the other, degrees"),
            Column("words", IDS, "term ids, the least frequent in the sample first"),
            Column("word_cuts", IDS, "first place in words of each run but the first, table by table"),
            Column("replication", FLOAT, "units that hold a subscription of the sample, on average"),
            Column("copies", FLOAT, "units that a message of the sample goes to, on average"),
            Column("unit_loads", FLOATS, "cost of a message at each unit, predicted by the sample"),
            Column("options", TEXT, "JSON: sample sizes, options of the planner"),
            Column("seconds", FLOAT, "duration of planning"),
            Column("created_at", TIME, "when it was made"),
        ),
        ("plan_version",),
        writer="control",
        append_only=False,
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in _TABLES}
