"""Declare every Delta table of a home: columns with types, units and meaning, key, partitions, and the writer.

Tables that grow with the data are written by Spark's tasks (state/data_files.py); the small control tables
(`writer="control"`) are written by the driver. No commit needs a JVM: most are made by state/log_entries.py, some of
upkeep and planning by delta-rs. Times are microseconds since 1970 in UTC where the type is timestamp.
"""

import pyarrow as pa

from pststream import names
from pststream.domain.arrow_columns import TIME
from pststream.kinds.registry import request_columns
from pststream.shapes.registry import PIECE_COLUMNS
from pststream.state.declarations.answer_tables import ANSWER_TABLES
from pststream.state.declarations.delivery_tables import DELIVERY_TABLES
from pststream.state.declarations.placement_tables import PLACEMENT_TABLES
from pststream.state.declarations.question_tables import QUESTION_TABLES
from pststream.state.declarations.topk_plan_table import TOPK_PLAN_TABLE
from pststream.state.table_types import COUNTS, IDS, RECORD, RESULTS, SECONDS, Column, Table

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
            Column("reason", pa.string(), "code, see quality.md"),
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
            Column("term_id", pa.int64(), "see text/tokenizer.py"),
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
            Column(
                "retracted",
                pa.bool_(),
                "true: retracted, by a deletion read later or a withdrawal",
            ),
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
            Column("term_id", pa.int64(), "see text/tokenizer.py"),
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
