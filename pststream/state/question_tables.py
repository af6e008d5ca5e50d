"""Declare the tables of answered questions: the ledger of their files, the answers, and what was asked."""

import pyarrow as pa

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.state.table_types import IDS, SECONDS, Column, Table

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
