"""Declare every Delta table of a home: columns with types, units and meaning, key, partitions, and the writer.

Tables that grow with the data are written by Spark's tasks (state/data_files.py); the small control tables
(`writer="control"`) are written by the driver. No commit needs a JVM: most are made by state/log_entries.py, some of
upkeep and planning by delta-rs. Times are microseconds since 1970 in UTC where the type is timestamp.
"""

from dataclasses import dataclass

import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.queries.kinds.registry import request_columns
from pststream.queries.shapes.registry import PIECE_COLUMNS

IDS = pa.list_(pa.int64())
SECONDS = pa.map_(pa.string(), pa.float64())
COUNTS = pa.map_(pa.string(), pa.int64())
RECORD = pa.struct(
    [("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()), ("lat", pa.float64()), ("text", pa.string())]
)
RESULTS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64()), ("success", pa.bool_())]))


SOUGHT = ("object_id", "lon", "lat", "alpha")
"""Columns that are neither integers nor times and that queries filter by, or whose absence in a file matters."""


def has_bounds(column: pa.Field) -> bool:
    """Whether data files record the least and the greatest value of a column: integers, times and those of SOUGHT."""
    return bool(pa.types.is_int64(column.type) or pa.types.is_timestamp(column.type) or column.name in SOUGHT)


@dataclass(frozen=True)
class Column:
    """A column: its type and meaning, and whether it may have nulls."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False


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


# Answers of subscriptions with memory

_BUCKET = "bucket of the subscription, from 0; home.json has the number of buckets"
_VALUE = "knn: distance, metres; topk: negative score"

ANSWER_TABLES = (
    Table(
        names.ANSWER_LOG,
        "changes of answers (knn, topk) and of reports (frequent_terms), by batch. "
        "Each batch commits its changes of answers first, and its changes of reports in a second commit",
        (
            Column("batch_id", pa.int64(), "the batch"),
            Column("bucket", pa.int64(), _BUCKET),
            Column("part", pa.string(), "state, window: what the next batch needs; change: what readers see"),
            Column(
                "event",
                pa.string(),
                "state: entry (an object enters the buffer), threshold, or reset (a threshold; what was in the buffer"
                " before the batch is void); change: entered or left (the answer); window: boundary (the last"
                " object before the window of the `count` most recent ones, null: there is none)",
            ),
            Column("subscription_key", pa.int64(), "see requests"),
            Column("object_key", pa.int64(), "see objects; null: the row has none", True),
            Column("ts", TIME, "event time of the object; frequent_terms: the tick", True),
            Column("value", pa.float32(), f"{_VALUE}; threshold, reset: greatest value that the buffer keeps", True),
            Column("rank", pa.int32(), "from 1; entered: after the batch; left: before it", True),
            Column("term", pa.string(), "frequent_terms: a word", True),
            Column("count", pa.int64(), "frequent_terms: objects that have it", True),
        ),
        ("batch_id", "bucket", "event", "subscription_key", "object_key", "ts", "rank", "count"),
        partitions=("part",),
        append_only=False,
    ),
    Table(
        names.ANSWERS,
        "snapshots of the buffers of subscriptions with memory, by bucket; the greatest batch counts",
        (
            Column("batch_id", pa.int64(), "the last batch that the snapshot contains"),
            Column("bucket", pa.int64(), _BUCKET),
            Column("subscription_key", pa.int64(), "see requests"),
            Column("threshold", pa.float32(), "greatest value that the buffer keeps"),
            Column("limit_object_key", pa.int64(), "the last object that the buffer keeps; null: it keeps all", True),
            Column("limit_ts", TIME, "event time of that object", True),
            Column("object_key", pa.int64(), "see objects; null: the buffer is empty", True),
            Column("ts", TIME, "event time of the object", True),
            Column("value", pa.float32(), _VALUE, True),
        ),
        ("batch_id", "bucket", "subscription_key", "object_key"),
        append_only=False,
    ),
)

# Delivery

DELIVERY_TABLES = (
    Table(
        names.DELIVERIES,
        "delivery position of each sink, a row each time it is saved; the furthest position counts",
        (
            Column("sink", pa.string(), "its name"),
            Column("batch_id", pa.int64(), "the batch; all due batches before it are delivered"),
            Column("position", pa.int64(), "messages of the batch that are delivered or refused, in their order"),
            Column("complete", pa.bool_(), "the batch has no more messages"),
            Column("message_limit", pa.int64(), "limit of the batch's messages, see sinks; 0: none"),
            Column("limit_seconds", pa.int64(), "period of that limit"),
            Column("delivered", pa.int64(), "messages delivered since the sink's previous row"),
            Column("refused", pa.int64(), "messages that became dead letters since then"),
            Column("failures", pa.int64(), "tries that failed since then"),
            Column(
                "state",
                pa.string(),
                "ok, behind (delivery ran out of time), down, failed (an error of PSTStream), stuck (no answer)",
            ),
            Column("reason", pa.string(), "why it is down", True),
            Column("written_at", TIME, "when the row was written"),
        ),
        ("sink", "batch_id", "position", "written_at"),
        writer="control",
    ),
    Table(
        names.DEAD_LETTERS,
        "messages that a sink refused permanently; a row `delivered` supersedes other rows of its id",
        (
            Column("sink", pa.string(), "the sink that refused it"),
            Column("message_id", pa.string(), "id of the message"),
            Column("batch_id", pa.int64(), "batch of the message"),
            Column("subscription_id", pa.string(), "subscription of the message"),
            Column("kind", pa.string(), "matched, retracted, entered, left, report or digest"),
            Column("status", pa.string(), "dead, or delivered (by a replay)"),
            Column("reason", pa.string(), "why it was refused", True),
            Column("message", pa.string(), "the message as it is sent, JSON; null once it is delivered", True),
            Column("written_at", TIME, "when the row was written"),
        ),
        ("sink", "message_id", "status"),
        writer="control",
    ),
)

# Placements of plans that share by subscription, trees of plans that share by object

PLACEMENT_TABLES = (
    Table(
        names.PLACEMENT_COUNTS,
        "objects of the sample of a plan that shares by subscription, by raster cell and term",
        (
            Column("plan_version", pa.int64(), "the plan"),
            Column(
                "term_id", pa.int64(), "see queries/text/tokenizer.py; the term of subscriptions without keywords: all"
            ),
            Column("cell", pa.int64(), "raster cell: row x columns + column"),
            Column("objects", pa.int64(), "sampled objects of the cell that have it"),
        ),
        ("plan_version", "term_id", "cell"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLACEMENTS,
        "loads by which a plan that shares by subscription places subscriptions, after each step that has placed some",
        (
            Column("plan_version", pa.int64(), "the plan that was made for the sample, see placement_version of plans"),
            Column("batch_id", pa.int64(), "the batch; 0: the index of the plan was built; -1: the plan was made"),
            Column(
                "step", pa.string(), "plan, rebuild; of a batch: requests, thresholds (knn, after their first batch)"
            ),
            Column(
                "present_to",
                pa.int64(),
                "greatest request_key when the plan was made; later subscriptions are new ones",
            ),
            Column("object_scale", pa.float64(), "stored objects for each sampled one"),
            Column("loads", pa.list_(pa.float64()), "cost of the subscriptions of each unit, in sampled objects"),
            Column("areas", pa.int64(), "rows of placement_areas so far"),
        ),
        ("plan_version", "batch_id", "step"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLAN_NODES,
        "the tree of each plan that divides objects by text, or whose planner made it as a tree",
        (
            Column("plan_version", pa.int64(), "the plan"),
            Column("node", pa.int64(), "from 0, the root; parents before their children"),
            Column("parent", pa.int64(), "the node above; null: the root", True),
            Column("first_column", pa.int64(), "of its rectangle of raster cells"),
            Column("first_row", pa.int64(), "of its rectangle, from the south"),
            Column("last_column", pa.int64(), "of its rectangle"),
            Column("last_row", pa.int64(), "of its rectangle"),
            Column("by_text", pa.bool_(), "whether its children share its rectangle and divide its objects by text"),
            Column("unit", pa.int64(), "the unit of a leaf; null: it has children", True),
            Column("objects", pa.int64(), "objects of the sample that came to it"),
            Column("terms", IDS, "keywords of queries in its rectangle, ascending; null: not by_text", True),
            Column("asked", pa.list_(pa.int64()), "for each of terms, the queries that have it", True),
            Column(
                "holders",
                pa.list_(pa.int64()),
                "for each of terms, bit c is set if the keyword list of child c has it",
                True,
            ),
            Column("queries", pa.list_(pa.int64()), "of the root: number of queries with 0, 1, .. keywords", True),
        ),
        ("plan_version", "node"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLACEMENT_AREAS,
        "areas of the parts in which a plan of dkm_sks has placed the subscriptions that were present, as raster cells",
        (
            Column("plan_version", pa.int64(), "see placements"),
            Column("number", pa.int64(), "from 0, in the order of assignment"),
            Column("first_column", pa.int32(), "column of the first raster cell"),
            Column("first_row", pa.int32(), "its row"),
            Column("last_column", pa.int32(), "column of the last raster cell"),
            Column("last_row", pa.int32(), "its row"),
        ),
        ("plan_version", "number"),
        writer="control",
        append_only=False,
    ),
)

# Answered questions

_FILE = "the file of the question, see question_files"

QUESTION_TABLES = (
    Table(
        names.QUESTION_FILES,
        "ledger of answered files of questions: a row when the answering starts, another when it is done, which counts",
        (
            Column("question_file", pa.int64(), "from 1"),
            Column("path", pa.string(), "as given"),
            Column("sha256", pa.string(), "of the content"),
            Column("bytes", pa.int64(), "size of the file"),
            Column("options", pa.string(), "JSON of the settings by which the questions are read"),
            Column("status", pa.string(), "started or done"),
            Column("ingest_id", pa.int64(), "the last ingest before it, which its rejects name; 0: none"),
            Column("objects_to", pa.int64(), "position in the log up to which objects and withdrawals count"),
            Column("questions", pa.int64(), "questions of the file, with the rejected ones", True),
            Column("rejected", pa.int64(), "questions rejected; a file that cannot be read counts as one", True),
            Column("rows", pa.int64(), "rows of the answers", True),
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
            Column("question_file", pa.int64(), _FILE),
            Column("row", pa.int64(), "number of the question's row in the file, from 1"),
            Column("question_id", pa.string(), "as given"),
            Column("kind", pa.string(), "kind of question"),
            Column("rank", pa.int64(), "from 1"),
            Column("object_id", pa.string(), "the object; null where the answer is terms", True),
            Column("ts", TIME, "event time of the object", True),
            Column("distance_m", pa.float64(), "knn, topk: distance of the object, metres", True),
            Column("score", pa.float64(), "topk: score of the object", True),
            Column("term", pa.string(), "frequent_terms: a word", True),
            Column("count", pa.int64(), "frequent_terms: objects that have it", True),
            Column("term_statistics_version", pa.int64(), "topk: the statistics that weigh words", True),
        ),
        ("question_file", "row", "rank"),
    ),
    Table(
        names.QUESTIONS,
        "what the questions of answered files asked for, as a model of their cost needs it",
        (
            Column("question_file", pa.int64(), _FILE),
            Column("row", pa.int64(), "number of the question's row in the file, from 1"),
            Column("kind", pa.string(), "kind of question"),
            Column("west", pa.float64(), "western bound of the region, or longitude of the point, degrees"),
            Column("south", pa.float64(), "southern bound, or latitude of the point"),
            Column("east", pa.float64(), "eastern bound, less than `west` across the antimeridian"),
            Column("north", pa.float64(), "northern bound"),
            Column("clauses", pa.list_(IDS), "conjunctive normal form of the keywords; empty: none"),
            Column("window_after", TIME, "objects with a later ts count; null: all up to `window_to`", True),
            Column("window_to", TIME, "the last ts that counts; null: no object is stored", True),
            Column("k", pa.int64(), "greatest number of rows; null: all", True),
            Column("rows", pa.int64(), "rows of the answer"),
            Column("distance_m", pa.float64(), "knn, topk: distance of the last row, metres", True),
        ),
        ("question_file", "row"),
    ),
)

# Plans of `topk` subscriptions

TOPK_PLAN_TABLE = Table(
    names.TOPK_PLANS,
    "plans of topk subscriptions; topk_version of plans says which one is in force",
    (
        Column("plan_version", pa.int64(), "the plan version that was made for it"),
        Column("planner", pa.string(), "name of the planner"),
        Column("way", pa.string(), "what the first level divides: space_first, words_first"),
        Column("first", pa.int64(), "parts of the first level"),
        Column("second", pa.int64(), "parts of the second level in each; units = first x second"),
        Column("is_prefix", pa.bool_(), "whether subscriptions are held for the words of their loose prefixes alone"),
        Column("space_cuts", pa.list_(pa.float64()), "cuts of the kd-trees, one tree after the other, degrees"),
        Column("words", pa.list_(pa.int64()), "term ids, the least frequent in the sample first"),
        Column("word_cuts", pa.list_(pa.int64()), "first place in words of each run but the first, table by table"),
        Column("replication", pa.float64(), "units that hold a subscription of the sample, on average"),
        Column("copies", pa.float64(), "units that a message of the sample goes to, on average"),
        Column("unit_loads", pa.list_(pa.float64()), "cost of a message at each unit, predicted by the sample"),
        Column("options", pa.string(), "JSON: sample sizes, options of the planner"),
        Column("seconds", pa.float64(), "duration of planning"),
        Column("created_at", TIME, "when it was made"),
    ),
    ("plan_version",),
    writer="control",
    append_only=False,
)

KEY = "position in the log: file_seq << 32 | row"
OPTIONS = "JSON of the reader's options, which differ by format and version"

_SHARED = "if terms is null and this is false, the units share the subscriptions, see unit of worker_index"

_TABLES = (
    Table(
        names.OBJECTS,
        "accepted objects, in the order of the log",
        (
            Column("object_key", pa.int64(), KEY),
            Column("object_id", pa.string(), "as published"),
            Column("ts", TIME, "event time"),
            Column("lon", pa.float64(), "degrees, WGS84"),
            Column("lat", pa.float64(), "degrees, WGS84"),
            Column("text", pa.string(), "as published; empty if none"),
            Column("terms", IDS, "distinct term ids, ascending"),
            Column("ingest_id", pa.int64(), "the ingest that wrote the row"),
        ),
        ("object_key",),
    ),
    Table(
        names.REQUESTS,
        "accepted requests, in the order of the log; an insertion is a subscription",
        (
            Column("request_key", pa.int64(), KEY),
            Column("op", pa.string(), "insert or delete"),
            Column("subscription_id", pa.string(), "as given by the subscriber"),
            Column("subscription_key", pa.int64(), "request_key of the insertion that is inserted or deleted"),
            Column("effective_at", TIME, "insert: start of validity; delete: its end (exclusive)"),
            Column("expires_at", TIME, "insert: end of validity (exclusive); null is never", True),
            *(Column(c.name, c.type, c.meaning, True) for c in request_columns()),
            Column("kind", pa.string(), "insert: kind of query", True),
            Column("payload", pa.string(), "JSON of the request's other fields, which the subscriber chooses", True),
            Column("ingest_id", pa.int64(), "the ingest that wrote the row"),
        ),
        ("request_key",),
    ),
    Table(
        names.REJECTS,
        "rows that were not accepted",
        (
            Column("kind", pa.string(), "objects, requests or questions"),
            Column("file", pa.string(), "path as given"),
            Column("row", pa.int64(), "number of the row in the file, from 1; 0: the whole file"),
            Column("field", pa.string(), "the invalid field; empty if the whole row is invalid"),
            Column("reason", pa.string(), "code, see docs/input.md"),
            Column("detail", pa.string(), "the same in a sentence"),
            Column("raw", pa.string(), "the value, at most 1,000 characters", True),
            Column("ingest_id", pa.int64(), "the ingest that wrote the row; questions: the last ingest before"),
            Column("record", RECORD, "objects that are future, late or duplicate: all fields, for a retry", True),
        ),
        ("ingest_id", "file", "row"),
    ),
    Table(
        names.FILES,
        "ledger of ingested files, withdrawals and changes of the term statistics: a row when an ingest starts, another"
        " when it is done, which counts",
        (
            Column("file_seq", pa.int64(), "position of the file in the log"),
            Column("ingest_id", pa.int64(), "the ingest, which may have several files"),
            Column("kind", pa.string(), "objects or requests"),
            Column("path", pa.string(), "as given"),
            Column("sha256", pa.string(), "of the content"),
            Column("bytes", pa.int64(), "size of the file"),
            Column("options", pa.string(), OPTIONS),
            Column("status", pa.string(), "started or done"),
            Column("rows", pa.int64(), "number of the last row", True),
            Column("accepted", pa.int64(), "rows accepted", True),
            Column("rejected", pa.int64(), "rows rejected", True),
            Column("watermark", TIME, "objects: watermark of the log before the file; null if none", True),
            Column("min_ts", TIME, "least ts accepted (objects), least effective_at accepted (requests)", True),
            Column("max_ts", TIME, "greatest ts that passed the row rules; withdrawal: watermark after it", True),
            Column("started_at", TIME, "when the ingest started"),
            Column("withdrawal_id", pa.int64(), "the withdrawal that takes this position; null: a file", True),
            Column(
                "statistics_version",
                pa.int64(),
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
            Column("plan_version", pa.int64(), "the plan"),
            Column("term_id", pa.int64(), "see queries/text/tokenizer.py"),
            Column("term", pa.string(), "the word, where the sample shows it", True),
            Column("objects", pa.int64(), "sampled objects that have it"),
            Column("subscriptions", pa.int64(), "sampled subscriptions that have it"),
        ),
        ("plan_version", "term_id"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.PLANS,
        "partition plans; the greatest version is the current one",
        (
            Column("plan_version", pa.int64(), "from 1"),
            Column(
                "index_version",
                pa.int64(),
                "of the index and vocabulary that it uses; its own, unless made by a migration",
            ),
            Column(
                "retiring_version", pa.int64(), "older plan that still serves older subscriptions; null: none", True
            ),
            Column(
                "retiring_to",
                pa.int64(),
                "greatest subscription_key under the older plan; this plan serves the rest",
                True,
            ),
            Column(
                "placement_version",
                pa.int64(),
                "plan whose counts and loads place subscriptions, see placements; null: shares by space and text",
                True,
            ),
            Column(
                "topk_version",
                pa.int64(),
                "plan version whose row of topk_plans serves topk; null: candidates are found by answer bucket",
                True,
            ),
            Column("planner", pa.string(), "name of the planner"),
            Column("workers", pa.int64(), "number of workers"),
            Column("units", pa.int64(), "number of units"),
            Column("west", pa.float64(), "western bound of the raster, degrees"),
            Column("south", pa.float64(), "its southern bound"),
            Column("east", pa.float64(), "its eastern bound"),
            Column("north", pa.float64(), "its northern bound"),
            Column("columns", pa.int64(), "of the raster"),
            Column("rows", pa.int64(), "of the raster"),
            Column("load_total", pa.float64(), "Definition 1, summed over workers"),
            Column("load_max", pa.float64(), "of the most loaded worker"),
            Column("load_min", pa.float64(), "of the least loaded worker"),
            Column("imbalance", pa.float64(), "load_max / load_min"),
            Column("worker_loads", pa.list_(pa.float64()), "Definition 1, of each worker"),
            Column("options", pa.string(), "JSON: cost constants, sample sizes, options with names of the planner"),
            Column("seconds", pa.float64(), "duration of planning"),
            Column("created_at", TIME, "when it was made"),
        ),
        ("plan_version",),
        writer="control",
    ),
    Table(
        names.PLAN_UNITS,
        "the units of each plan",
        (
            Column("plan_version", pa.int64(), "the plan"),
            Column("unit", pa.int64(), "from 0"),
            Column("worker", pa.int64(), "the worker that serves it"),
            Column("leaf", pa.int64(), "the leaf; its units divide it by text, or its objects, see plan_nodes"),
            Column("cell_runs", pa.list_(pa.int64()), "raster cells of the leaf: start, length, start, length ..."),
            Column("terms", IDS, "terms that it serves; null: all terms of the leaf", True),
            Column("takes_other_terms", pa.bool_(), f"whether it shares the terms that no unit lists; {_SHARED}"),
            Column("load", pa.float64(), "objects x subscriptions of the sample, scaled"),
            Column("objects", pa.float64(), "objects of the sample, scaled"),
            Column("subscriptions", pa.float64(), "subscriptions of the sample, scaled"),
        ),
        ("plan_version", "unit"),
        writer="control",
        append_only=False,
    ),
    Table(
        names.WORKER_INDEX,
        "the subscriptions of each worker; index segments are built from its data files (matching/segments.py)",
        (
            Column("index_version", pa.int64(), "index version of the plans that use it, see plans"),
            Column("worker", pa.int64(), "the worker; -1: a deletion, which every worker reads"),
            Column("subscription_key", pa.int64(), "see requests"),
            *(Column(c.name, c.type, c.meaning, True) for c in PIECE_COLUMNS),
            Column("clauses", pa.list_(IDS), "conjunctive normal form; the first clause is the posted one", True),
            Column("created_at", pa.int64(), "start of validity, microseconds", True),
            Column("end_at", pa.int64(), "end of validity (exclusive), microseconds; 2^63-1 is never"),
            Column("batch_id", pa.int64(), "the batch that wrote it; 0: not known"),
            Column("kind", pa.string(), "kind of query; null is range", True),
            Column("unit", pa.int64(), "the unit that it belongs to under a plan that shares by subscription", True),
        ),
        ("index_version", "worker", "subscription_key", "west", "south"),
        partitions=("index_version", "worker"),
        append_only=False,
    ),
    Table(
        names.MIGRATIONS,
        "moves of changes of the plan; a row for each move, in their order",
        (
            Column("plan_version", pa.int64(), "the plan that the migration made; valid once `plans` has it"),
            Column("plan_version_before", pa.int64(), "the plan that it changed"),
            Column("kind", pa.string(), "local, global, retire or undo"),
            Column(
                "reason",
                pa.string(),
                "split or merge (of a cell by text), the method that chose what moves (gr, dp, si, ra, pm, fm), the"
                " operation of the method shift (split_merge, shift, corner_shift), the planner, retire, undo or"
                " undo of topk",
            ),
            Column("move", pa.int64(), "from 0"),
            Column("origin", pa.int64(), "worker that the move is from; -1: several", True),
            Column("target", pa.int64(), "worker that the move is to; -1: several", True),
            Column("cells", pa.list_(pa.int64()), "raster cells that move"),
            Column("terms", IDS, "terms of these cells that move; null: all", True),
            Column("subscriptions", pa.int64(), "index rows copied to targets, of the whole migration"),
            Column("bytes", pa.int64(), "approximate size of these rows"),
            Column("expected_gain", pa.float64(), "share of the greatest load that the whole migration saves"),
            Column("load_before", pa.list_(pa.float64()), "load of each worker on the sample, Definition 1, seconds"),
            Column(
                "load_after",
                pa.list_(pa.float64()),
                "the same after it; for a global one, once the old plan is retired",
            ),
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
            Column("batch_id", pa.int64(), "the batch"),
            Column(
                "plan_version",
                pa.int64(),
                "the plan of the unit, of a unit of topk the version of topk_plans; where unit is"
                f" {names.WHOLE_WORKER}, that of the batch",
            ),
            Column("worker", pa.int64(), f"the worker that served it; {names.UNIT_OF_TOPK}: unit of the plan of topk"),
            Column("unit", pa.int64(), f"unit of the plan; {names.WHOLE_WORKER}: total of the worker"),
            Column("objects", pa.int64(), "objects matched in the unit"),
            Column("subscriptions", pa.int64(), "subscriptions stored; of workers and units of topk"),
            Column("candidates", pa.int64(), "postings checked; of a unit of topk objects that may enter answers"),
            Column("matches", pa.int64(), "pairs found"),
            Column(
                "cpu_seconds",
                pa.float64(),
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
            Column("object_key", pa.int64(), "see objects"),
            Column("object_id", pa.string(), "as published"),
            Column("ts", TIME, "event time of the object"),
            Column("subscription_keys", IDS, "subscriptions that the object matched, see requests"),
            Column("retracted", pa.bool_(), "true: retracted, by a deletion read later or a withdrawal"),
            Column("worker", pa.int64(), "the worker that matched; -1 in a retraction"),
            Column("batch_id", pa.int64(), "the batch that wrote the row"),
            Column("plan_version", pa.int64(), "plan of the batch"),
        ),
        ("object_key", "worker", "batch_id"),
    ),
    Table(
        names.BATCHES,
        "ledger of micro-batches: a row when one starts, another when it is done; the last row counts",
        (
            Column("batch_id", pa.int64(), "from 1"),
            Column("status", pa.string(), "started or done"),
            Column("plan_version", pa.int64(), "plan of the batch"),
            Column("objects_after", pa.int64(), "object_key range: greater than this"),
            Column("objects_to", pa.int64(), "... up to this"),
            Column("requests_after", pa.int64(), "request_key range: greater than this"),
            Column("requests_to", pa.int64(), "... up to this"),
            Column("objects_version", pa.int64(), "Delta version of `objects` that was read"),
            Column("requests_version", pa.int64(), "Delta version of `requests` that was read"),
            Column("objects", pa.int64(), "objects in the range", True),
            Column("discarded", pa.int64(), "objects without a live term, or withdrawn, sent to no worker", True),
            Column("requests", pa.int64(), "requests in the range", True),
            Column("matches", pa.int64(), "pairs written", True),
            Column("retractions", pa.int64(), "pairs retracted", True),
            Column("seconds_by_step", SECONDS, "seconds of each step; *_cpu: CPU seconds within them", True),
            Column("started_at", TIME, "when it started"),
            Column("finished_at", TIME, "when it was done", True),
            Column("stream_time", TIME, "greatest ts of the objects up to objects_to; null: none", True),
            Column("removals", pa.int64(), "commits that removed rows of objects or requests before it"),
            Column("candidates", COUNTS, "by kind: pairs of an object and a subscription with memory", True),
            Column("changes", COUNTS, "by kind: rows that entered or left answers", True),
            Column("evaluations", COUNTS, "by kind: answers or reports computed from stored objects", True),
        ),
        ("batch_id", "status"),
        writer="control",
    ),
    Table(
        names.QUARANTINE,
        "quarantined files: a row when one is quarantined, another when it is discarded; released ones are in `files`",
        (
            Column("hold_id", pa.int64(), "from 1"),
            Column("kind", pa.string(), "objects or requests"),
            Column("path", pa.string(), "as given"),
            Column("copy", pa.string(), "path of the copy, below the home"),
            Column("sha256", pa.string(), "of the content"),
            Column("bytes", pa.int64(), "size of the file"),
            Column("options", pa.string(), OPTIONS),
            Column("reasons", pa.list_(pa.string()), "a sentence for each failed expectation"),
            Column("status", pa.string(), "held (in quarantine) or discarded"),
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
                pa.string(),
                "objects or requests (landing gate), tables (daily checks), or folder and name of a suite",
            ),
            Column("subject", pa.string(), "path of the file, or name of the check"),
            Column("success", pa.bool_(), "whether every expectation was met"),
            Column("failed", pa.list_(pa.string()), "a sentence for each failed expectation"),
            Column("results", RESULTS, "each expectation; value is null for a text, which `failed` has"),
            Column("batch_id", pa.int64(), "daily checks: the last batch that the check covered", True),
        ),
        ("suite", "subject", "checked_at"),
        writer="control",
    ),
    *DELIVERY_TABLES,
    Table(
        names.ERASURES,
        "what `erase` and the setting `keep` removed: a row for each commit that removed rows of a table",
        (
            Column("erasure_id", pa.int64(), "from 1; the rows of one run share it"),
            Column("cause", pa.string(), "erase (rows of given ids), or keep (rows that were too old)"),
            Column("table_name", pa.string(), "the table that lost rows"),
            Column("transaction_id", pa.int64(), "txnVersion of the commit; a row counts once its table has it"),
            Column("rows_removed", pa.int64(), "rows removed, or changed where a row has more than what was erased"),
            Column("matched_objects", pa.int64(), "objects: those that batches had matched"),
            Column("batch_ids", IDS, "matches: batches that lost pairs, ascending"),
            Column("pairs", IDS, "matches: pairs that each of these batches lost"),
            Column("retractions", IDS, "matches: retractions that each of these batches lost"),
            Column("requested_by", pa.string(), "login name"),
            Column("erased_at", TIME, "when"),
            Column("files_until", TIME, "the first maintain after it deletes the last files that hold the rows"),
        ),
        ("table_name", "transaction_id"),
        writer="control",
    ),
    Table(
        names.WITHDRAWALS,
        "withdrawn objects; a row counts once `files` has its withdrawal",
        (
            Column("withdrawal_id", pa.int64(), "from 1; the objects of one run share it"),
            Column("object_key", pa.int64(), "see objects"),
        ),
        ("withdrawal_id", "object_key"),
        writer="control",
    ),
    Table(
        names.TERM_STATISTICS,
        "how many objects have each term, by version; a version counts once `files` has it",
        (
            Column("statistics_version", pa.int64(), "from 1; `files` has the number of objects in its options"),
            Column("term_id", pa.int64(), "see queries/text/tokenizer.py"),
            Column("documents", pa.int64(), "objects that have the term"),
        ),
        ("statistics_version", "term_id"),
        writer="control",
        append_only=False,
    ),
    *QUESTION_TABLES,
    *ANSWER_TABLES,
    *PLACEMENT_TABLES,
    TOPK_PLAN_TABLE,
)

TABLES: dict[str, Table] = {table.name: table for table in _TABLES}
