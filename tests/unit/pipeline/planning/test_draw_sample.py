"""The sample of planners: its subscriptions, costs and questions, and the insertions and deletions of its period."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.scenarios.plans.standing_planners import draw_mixed
from benchmarks.support.measured_homes import STREAMS, BenchHome, StandingHome
from pststream.base import names
from pststream.base.progress import no_progress
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.planning.plan import describe_questions, draw_sample
from pststream.planning.load_model import CostModel
from pststream.queries.text.tokenizer import term_id
from pststream.settings import Settings
from pststream.state.home import Home as State
from pststream.tables.ledgers import log_key
from pststream.tables.open_tables import open_table
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from tests.commands import new_home
from tests.damage import allow_changes
from tests.plans import unpack
from tests.unit.reports.commands.homes import add_file, deletion, insertion, thing


def test_subscriptions_count_once_for_a_sample_however_many_workers_store_them(tmp_path: Path) -> None:
    bench = BenchHome(str(tmp_path / "home"), 1, no_progress)
    bench.add_subscriptions(2_000, SubscriptionStyle("q1", side_km=(3_000.0, 3_000.0)))
    bench.add_objects(500)
    settings = Settings(
        planner="grid", workers=16, max_ahead_seconds=0, engine="local", cache_dir=str(tmp_path / "cache")
    )
    match(bench.home, settings)
    sample, _ = draw_sample(bench.home, replace(settings, sample_subscriptions=1_000))
    assert 800 < sample.subscriptions < 1_200
    assert sample.subscriptions * sample.subscription_scale == pytest.approx(2_000, rel=0.1)


def test_matches_have_the_cost_of_the_kind_of_their_subscription(tmp_path: Path) -> None:
    settings = Settings(planner="grid", workers=3, max_ahead_seconds=0, engine="local")
    home = StandingHome(tmp_path, STREAMS["tw14"], 1, settings, no_progress)
    home.add_objects(200)
    for columns in draw_mixed(home.stream.draw(200, 2), 90, 3):
        home.add_queries(columns)
    home.run_batch()
    home.add_objects(50)
    home.run_batch()  # it indexes the circles of the first answers
    sample, _ = draw_sample(home.bench.home, home.settings)
    of_range, of_knn = CostModel.of(home.settings).match_reads(np.array([False, True])).tolist()
    assert 0 < of_range < of_knn
    counts = {reads: len(np.unique(sample.piece_key[sample.match_reads == reads])) for reads in (of_range, of_knn)}
    assert counts == {of_range: 60, of_knn: 30} and sample.subscriptions == 90


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
        (landing / kind / "one.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
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


COST = CostModel(check=0.0, object=1.0, insert=10.0, delete=1.0)


def test_requests_before_the_first_object_are_no_work_of_the_period(hand_home: State) -> None:
    first = add_file(hand_home, "requests", [insertion(row, f"s{row}") for row in (1, 2, 3)])
    objects = add_file(hand_home, "objects", [thing(1, "a", 1), thing(2, "b", 2)])
    add_file(hand_home, "requests", [insertion(1, "s4", 3), deletion(2, "s1", 4, log_key(first, 1))])
    sample, _ = draw_sample(hand_home, Settings())
    live = sample.subscriptions * sample.subscription_scale
    assert (sample.insertions * live, sample.deletions * live) == pytest.approx((1.0, 1.0))
    assert COST.rates(sample).subscription * sample.subscriptions == pytest.approx(10.0 + 1.0)

    # A sample of later objects has the requests that came behind the object before it.
    add_file(hand_home, "objects", [thing(1, "c", 5)])
    sample, _ = draw_sample(hand_home, Settings(), after_key=log_key(objects, 2))
    assert sample.objects == 1
    assert sample.insertions == sample.deletions == pytest.approx(1.0 / live)


def test_every_request_is_work_of_a_period_without_objects(hand_home: State) -> None:
    add_file(hand_home, "requests", [insertion(1, "s1"), insertion(2, "s2")])
    sample, _ = draw_sample(hand_home, Settings())
    assert (sample.insertions, sample.deletions) == (1.0, 0.0)
