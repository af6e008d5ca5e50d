"""Questions of answered files are in the sample of the planners; questions of unfinished files are not."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pststream.base import names
from pststream.pipeline.planning.draw_sample import describe_questions, draw_sample
from pststream.queries.text.tokenizer import term_id
from pststream.settings import Settings
from pststream.state.home import Home as State
from pststream.tables.open_tables import open_table
from tests.commands import new_home
from tests.damage import allow_changes
from tests.plans import unpack


def test_boxes_and_keywords() -> None:
    clauses = [[[1, 2], [2]], [], [[5], [-4]], [[3]]]
    rows = pa.table(
        {
            "kind": ["range", "knn", "knn", "range"],
            "west": [0.0, 10.0, 20.0, 170.0], "south": [0.0, 0.0, 20.0, -5.0],
            "east": [1.0, 10.0, 20.0, -170.0], "north": [1.0, 0.0, 20.0, 5.0],
            "clauses": pa.array(clauses, pa.list_(pa.list_(pa.int64()))),
            "k": pa.array([None, 3, 3, None], pa.int64()), "rows": pa.array([7, 3, 2, 0], pa.int64()),
            "distance_m": pa.array([None, 111_195.0, 5.0, None]),
        }
    )  # fmt: skip
    drawn = describe_questions(rows)
    expected = [(0, 0, 1, 1), (9, -1, 11, 1), (-180, -90, 180, 90), (-180, -5, -170, 5), (170, -5, 180, 5)]
    assert np.allclose(drawn.boxes, expected, atol=1e-3)
    assert unpack(drawn.word_offsets, drawn.words) == [[1, 2], [], [-4, 5], [3], [3]]


@pytest.mark.slow
def test_questions_of_answered_files_are_drawn(tmp_path: Path) -> None:
    home, landing = new_home(tmp_path / "home", engine="local"), tmp_path / "landing"
    assert draw_sample(State(home.path), Settings())[0].questions is None
    things = [{"object_id": str(n), "ts": "2026-01-01", "lon": n, "lat": 0, "text": "tea cake"} for n in range(5)]
    asked = [
        {"question_id": "a", "kind": "range", "bbox": [1, -1, 3, 1], "keywords": "tea AND cake"},
        {"question_id": "b", "kind": "knn", "point": {"lon": 1, "lat": 0}, "k": 2, "keywords": "tea"},
        {"question_id": "c", "kind": "frequent_terms", "bbox": [0, -1, 3, 1], "k": 2},
    ]
    for kind, rows in (("objects", things), ("questions", asked)):
        (landing / kind).mkdir(parents=True)
        (landing / kind / "one.jsonl").write_text("\n".join(map(json.dumps, rows)))
    home.run("run", landing)
    questions = draw_sample(State(home.path), Settings())[0].questions
    assert questions is not None and len(questions.boxes) == 2
    words = [sorted([term_id("tea"), term_id("cake")]), [term_id("tea")]]
    assert unpack(questions.word_offsets, questions.words) == words
    assert np.allclose(questions.boxes, [(1, -1, 3, 1), (0, -1, 2, 1)], atol=1e-2)
    ledger = State(home.path).table(names.QUESTION_FILES)
    allow_changes(ledger).delete("status = 'done'")
    assert open_table(ledger).to_pyarrow_table().num_rows == 1
    assert draw_sample(State(home.path), Settings())[0].questions is None
