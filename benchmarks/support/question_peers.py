"""Ask other systems (peers) the same questions about the same data files, and compare their answers and times.

A peer is a program infra/peers/questions_NAME.py, called with a folder that has

    questions.json     {"files": addresses of the data files of `objects` that the windows reach, "after": least ts
                       (microseconds) that any window reaches, exclusive, "limit_seconds": of one kind}
    range.parquet, knn.parquet, topk.parquet, frequent_terms.parquet: the questions of each kind
                       question int64, after int64 (microseconds, exclusive), west, south, east, north float64, lon, lat
                       float64, k int64, alpha float64, terms list<int64> (rarest first), rarest int64
    words.parquet      term int64, word string: the vocabulary, for ties between terms

It writes answers-NAME-KIND.parquet (question int64, rank int64, answer string: object_id or word) and prints a JSON
object: version, setting, load_seconds, and for each kind {"questions": the first ones, as many as it has answered,
"seconds"}. It loads only objects of the windows. Its time counts if its answers are equal.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.measured_worlds import MeasuredWorld, time_questions
from benchmarks.support.question_sets import STYLES, Record, draw_questions, word_ranks
from pststream.base import names
from pststream.base.errors import PstError
from pststream.queries.kinds.registry import QUESTION_KINDS
from pststream.queries.shapes.contract import EARTH_RADIUS_M
from pststream.queries.shapes.registry import SIDES
from pststream.queries.text.tokenizer import term_id
from pststream.search.answer_rows import AnswerRows
from pststream.search.object_snapshot import ObjectSnapshot
from pststream.search.question_batch import TimedQuestion, window_bounds
from pststream.search.read_questions import read_question_records
from pststream.state.data_files import addresses_and_rows, list_data_files

RUNNERS = Path(__file__).parents[2] / "infra" / "peers"
PEERS = ("duckdb", "polars", "postgresql")
LIMIT_SECONDS = 300.0
"""A peer answers no further question of a kind after so many seconds."""


def compare_peers(
    world: MeasuredWorld, snapshot: ObjectSnapshot, folder: Path, count: int, seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each peer with its figures, or only a state if it could not run. Raises PstError for other answers."""
    expected, own = {}, {}
    least = 1 << 62
    for kind in QUESTION_KINDS:
        records = draw_questions(world.sampled, STYLES[kind], count, seed)
        measured, rows = time_questions(snapshot, records, world.settings)
        own[kind], expected[kind] = measured["wall_ms"], _answers_of(rows)
        asked = _question_table(world, snapshot, records)
        least = min(least, int(np.min(asked.column("after").to_numpy())))
        pq.write_table(asked, folder / f"{kind}.parquet")
    files = [file for file in list_data_files(world.home, names.OBJECTS) if file.high["ts"] > least]
    addresses = [address for address, _ in addresses_and_rows(world.home, names.OBJECTS, files)]
    document = {"files": addresses, "after": least, "limit_seconds": LIMIT_SECONDS, "radius_m": EARTH_RADIUS_M}
    (folder / "questions.json").write_text(json.dumps(document), "utf-8")
    ranks = word_ranks()
    words = pa.table({"term": [term_id(word) for word in ranks], "word": list(ranks)})
    pq.write_table(words, folder / "words.parquet")
    for name in PEERS:
        yield name, _run_peer(name, folder, expected, own)


def _question_table(world: MeasuredWorld, snapshot: ObjectSnapshot, records: list[Record]) -> pa.Table:
    """Return questions of one kind in the columns of the files; null where a kind has no such value."""
    parsed = read_question_records(records, world.settings).questions
    after, _ = window_bounds(snapshot, [TimedQuestion(question.parsed, question.as_of) for question in parsed])
    ranks = word_ranks()
    words = [[w for w in record.get("keywords", "").split() if w != "AND"] for record in records]
    terms = [[term_id(word) for word in sorted(some, key=lambda word: -ranks[word])] for some in words]
    boxes = [record.get("bbox", [None] * 4) for record in records]
    points = [record.get("point", {"lon": None, "lat": None}) for record in records]
    columns = {
        "question": pa.array(range(len(records)), pa.int64()),
        "after": pa.array(after[:, 0]),
        **{side: pa.array([b[at] for b in boxes], pa.float64()) for at, side in enumerate(SIDES)},
        **{axis: pa.array([point[axis] for point in points], pa.float64()) for axis in ("lon", "lat")},
        "k": pa.array([record.get("k") for record in records], pa.int64()),
        "alpha": pa.array([record.get("alpha") for record in records], pa.float64()),
        "terms": pa.array(terms, pa.list_(pa.int64())),
        "rarest": pa.array([some[0] if some else None for some in terms], pa.int64()),
    }
    return pa.table(columns)


def _answers_of(rows: AnswerRows) -> pa.Table:
    answer = rows.columns["term"] if "term" in rows.columns else rows.columns["object_id"]
    return pa.table({"question": rows.question, "rank": rows.rank, "answer": answer.cast(pa.string())})


def _run_peer(name: str, folder: Path, expected: dict[str, pa.Table], own: dict[str, float]) -> dict[str, Any]:
    command = [sys.executable, str(RUNNERS / f"questions_{name}.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        if lines[-1].startswith("absent"):
            return {"state": lines[-1]}
        raise PstError(f"{name} failed: {lines[-1]}", f"run: {' '.join(command)}")
    output = json.loads(done.stdout.strip().splitlines()[-1])
    figures = {name: output[name] for name in ("setting", "load_seconds")}
    for kind, measured in output["kinds"].items():
        asked = measured["questions"]
        compare_answers(
            f"{name}: {kind}", pq.read_table(folder / f"answers-{name}-{kind}.parquet"), expected[kind], asked
        )
        ms = measured["seconds"] / asked * 1e3
        figures |= {f"{kind}_questions": asked, f"{kind}_ms": round(ms, 2), f"{kind}_over_own": round(ms / own[kind])}
    return {"state": output["version"], **figures}


def compare_answers(what: str, given: pa.Table, expected: pa.Table, questions: int) -> None:
    """Raise PstError unless a peer gives the same answers to the first questions."""
    order = [("question", "ascending"), ("rank", "ascending")]
    wanted = expected.slice(0, int(np.searchsorted(expected.column("question").to_numpy(), questions)))
    mine, other = (table.sort_by(order).to_pylist() for table in (wanted, given.select(expected.column_names)))
    if mine != other:
        differs = next((pair for pair in zip(mine, other) if pair[0] != pair[1]), (len(mine), len(other)))
        raise PstError(f"{what}: other answers, first {differs[0]} and {differs[1]}", "its time does not count")
