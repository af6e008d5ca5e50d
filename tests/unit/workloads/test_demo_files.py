"""The data of the demo: readable, with counted faults, and with matches for every named subscription."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.registry import KINDS, QUESTION_KINDS, kinds_with_answers
from pststream.queries.shapes.contract import RegionError
from pststream.queries.shapes.registry import contains, read_region
from pststream.queries.text.expression import ExpressionError, parse_keywords
from pststream.queries.text.words import tokenize
from pststream.search.read_questions import read_question_records
from pststream.settings import Settings
from pststream.workloads.demo_files import (
    THEMES,
    DemoFiles,
    demo_objects,
    demo_questions,
    named_subscriptions,
    standing_subscriptions,
    themed_places,
    write_demo,
    write_sentence,
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoFiles:
    return write_demo(tmp_path_factory.mktemp("demo"), 1, objects=1_200, subscriptions=200)


def lines(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_same_seed_same_files(demo: DemoFiles, tmp_path: Path) -> None:
    again = write_demo(tmp_path, 1, objects=1_200, subscriptions=200)
    for one, two in zip(demo.objects + demo.requests, again.objects + again.requests):
        assert Path(one).name == Path(two).name
        assert Path(one).read_bytes() == Path(two).read_bytes()


def test_rows_are_counted(demo: DemoFiles) -> None:
    assert demo.object_rows == 1_200 + demo.bad_objects + demo.late_objects + demo.duplicate_objects + 1
    assert demo.request_rows == sum(len(lines(path)) for path in demo.requests)
    assert list(demo.objects) == sorted(demo.objects) and list(demo.requests) == sorted(demo.requests)
    with open(demo.objects[4], encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 200 + demo.bad_objects + demo.duplicate_objects


def test_requests_are_valid_except_the_faulty_ones(demo: DemoFiles) -> None:
    bad, live = 0, set()
    for row in (row for path in demo.requests for row in lines(path)):
        name = row["subscription_id"]
        try:
            if row["op"] == "insert":
                region = read_region(row)
                wrong = not parse_keywords(row["keywords"]).required or not region.boxes or name in live
                live.add(name)
            elif row["op"] == "delete":
                wrong = name not in live
                live.discard(name)
            else:
                wrong = True
        except (RegionError, ExpressionError):
            wrong = True
        bad += wrong
    assert bad == demo.bad_requests
    assert len(live) == 200 + len(named_subscriptions()) - 11


def test_every_named_subscription_finds_something() -> None:
    table = demo_objects(60_000, 1)
    table = table.filter(pc.starts_with(table["object_id"], "p"))
    lon, lat = table["lon"].to_numpy(), table["lat"].to_numpy()
    words = [set(tokenize(text)) for text in table["text"].to_pylist()]
    for row in named_subscriptions():
        region, clauses = read_region(row), parse_keywords(row["keywords"]).required
        boxes = [(lon >= w) & (lon <= e) & (lat >= s) & (lat <= n) for w, s, e, n in region.boxes]
        near = np.flatnonzero(np.logical_or.reduce(boxes)).tolist()
        assert any(all(map(words[i].intersection, clauses)) and contains(region, lon[i], lat[i]) for i in near), row


def test_the_demo_has_valid_subscriptions_of_each_kind_with_memory(demo: DemoFiles) -> None:
    rows = lines(*demo.answer_requests)
    assert rows == standing_subscriptions() and {row["kind"] for row in rows} == {
        kind.name for kind in kinds_with_answers()
    }
    for row in rows:
        KINDS[row["kind"]].parse_request(row, RequestLimits())


def test_sentences_have_no_choices_left() -> None:
    rng = np.random.default_rng(1)
    places = themed_places()
    said = [write_sentence(rng, place) for place in places for _ in range(20)]
    assert not any(character in text for text in said for character in "{}|")
    assert all(theme in THEMES for place in places for theme in place.themes)


def test_the_demo_asks_a_valid_question_of_each_kind() -> None:
    read = read_question_records([record for _, record in demo_questions()], Settings())
    assert read.rejects == []
    assert {question.kind.name for question in read.questions} == set(QUESTION_KINDS)
