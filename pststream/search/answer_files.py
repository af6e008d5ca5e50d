"""Write answers, their changes, or term statistics to a file (`export answers`, `changes`, `term-statistics`)."""

from typing import Any

import numpy as np
import pyarrow as pa

from pststream.reports.reading.standing_answers import ANSWERS, CHANGES, StandingAnswers
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.open_snapshot import open_snapshot, statistics_files
from pststream.search.term_weights import read_counts
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.delta_tables import AnyHome, TableReader
from pststream.tables.log_events import statistics_in_force
from pststream.tables.table_files import export_tables


def export_answers(home: AnyHome, out: str) -> dict[str, Any]:
    """Write the answers after the last batch, by subscription in the order of insertion, and rank.

    Memory holds the answers of 262,144 subscriptions, and their changes since the last snapshot. Returns {"out",
    "rows"}; raises UsageError for a file name that cannot be used.
    """
    rows = export_tables(StandingAnswers(TableReader(home)).answers(), out, ANSWERS, json_columns=("attributes",))
    return {"out": out, "rows": rows}


def export_changes(home: AnyHome, out: str, since_batch: int = 0) -> dict[str, Any]:
    """Write what the batches from `since_batch` on changed in answers, in their order.

    Memory holds the changes of one batch, or of several small ones. Returns {"out", "rows", "complete_from"}: of
    batches before `complete_from`, only changes that the answers still need are left (setting `keep`). Raises
    UsageError for a file name that cannot be used.
    """
    answers = StandingAnswers(TableReader(home))
    rows = export_tables(answers.changes(since_batch), out, CHANGES, json_columns=("attributes",))
    return {"out": out, "rows": rows, "complete_from": answers.complete_from}


def export_statistics(home: Home, settings: Settings, out: str) -> dict[str, Any]:
    """Write version, term, documents and objects of the version in force, greatest count first; no rows of version 0.

    The word of a term comes from the segments of stored objects, and is null if no stored object has it any more.
    Memory holds the vocabulary. Returns {"out", "rows"}; raises UsageError for a file name that cannot be used.
    """
    version = statistics_in_force(home)
    ids, documents = read_counts(statistics_files(home, version.version), version.version)
    order = np.lexsort((ids, -documents))
    rows = pa.table(
        {
            "version": pa.repeat(pa.scalar(version.version, pa.int64()), len(ids)),
            "term": find_words(open_snapshot(home, settings), ids[order]),
            "documents": pa.array(documents[order]),
            "objects": pa.repeat(pa.scalar(version.objects, pa.int64()), len(ids)),
        }
    )
    export_tables([rows], out, rows.schema)
    return {"out": out, "rows": rows.num_rows}


def find_words(snapshot: ObjectSnapshot, ids: np.ndarray) -> pa.Array:
    """Return the word of each term id (int64[n]), from the newest segment that has it; null if none has: string[n]."""
    parts, positions = [pa.array([None], pa.large_string())], np.zeros(len(ids), np.int64)
    following, missing = 1, np.arange(len(ids))
    for segment in reversed(snapshot.segments):
        local = segment.find_terms(ids[missing])
        chosen = np.flatnonzero(local >= 0)
        parts.append(segment.words_of(local[chosen]))
        positions[missing[chosen]] = following + np.arange(len(chosen))
        following += len(chosen)
        missing = missing[local < 0]
        if not len(missing):
            break
    return pa.concat_arrays(parts).take(pa.array(positions))
