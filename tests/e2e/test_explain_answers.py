"""Explain says of each pair of a home what the twins compute: state, first failed condition, rank, counts of words."""

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pststream.reports.commands.explain import explain, render_explain
from pststream.state.home import Home as State
from tests import worlds
from tests.commands import Home
from tests.oracles.standing_answers import StandingObject, StandingSubscription, lives, ranked, stream_time_of
from tests.oracles.standing_reports import micros
from tests.oracles.twin import Incarnation, PublishedObject, in_region
from tests.oracles.twin_expressions import parts_of, reported_words
from tests.oracles.twin_regions import read_box
from tests.oracles.twin_rows import time_us
from tests.standing_worlds import StandingTwin, standing_home, write_standing_world
from tests.worlds import moment, write_rows

pytestmark = [pytest.mark.e2e, pytest.mark.deep]

FILES = 6
PAIRS = 15
"""Pairs of each state and condition that are explained."""
REGIONS = [
    ("everywhere", [-180.0, -90.0, 180.0, 90.0], 3, "3h", "1h"),
    ("east", [0.0, -90.0, 180.0, 90.0], 2, "2d", "6h"),
    ("gaps", [-180.0, -90.0, 180.0, 90.0], 4, "1h", "5h"),
]


@pytest.fixture(scope="module")
def matched(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with answers and reports; a withdrawal, term statistics, and a last file that no batch has processed."""
    folder = tmp_path_factory.mktemp("explained")
    world = write_standing_world(folder / "files", 11, FILES, subscriptions=30)
    home = standing_home(folder / "home", world)
    home.ingest("requests", [write_rows(folder / "regions.jsonl", list(map(_region, REGIONS)))])
    for place, (requests, objects) in enumerate(zip(world.requests, world.objects)):
        home.ingest("requests", [requests])
        home.ingest("objects", [objects])
        if place == 2:
            home.run("term-statistics")
        if place == 3:
            home.run("withdraw", "--object-id", "o20", "--object-id", "o61")
        if place < FILES - 1:
            home.match("--max-objects", "20")
    return home


def _region(row: tuple[str, list[float], int, str, str]) -> worlds.Row:
    name, box, k, window, step = row
    given = {"kind": "frequent_terms", "bbox": box, "k": k, "window": window, "step": step}
    return {"op": "insert", "subscription_id": name, "created_at": moment(20), **given}


def test_ranks_and_failed_conditions_are_those_of_the_twin(matched: Home) -> None:
    twin, rnd, home = StandingTwin(matched), random.Random(4), State(matched.path)
    batch = twin.batches[-1]
    groups: dict[tuple[str, str | None], list[tuple[int, int]]] = {}
    for key in twin.insertions:
        for number in twin.objects:
            groups.setdefault(_expected(twin, batch, number, key)[:2], []).append((key, number))
    failed = {condition for state, condition in groups if state == "not in answer"}
    assert failed == {"withdrawn", "keywords", "max_distance_m", "created_at", "where", "end", "window", "rank"}
    assert {("in answer", None), ("pending", None)} <= set(groups)
    for pairs in groups.values():
        for key, number in rnd.sample(pairs, min(PAIRS, len(pairs))):
            _assert_explained(twin, batch, home, key, number)


def _assert_explained(twin: StandingTwin, batch: dict[str, Any], home: State, key: int, number: int) -> None:
    """Assert that the explanation of two ids has the state, the condition and the rank of each of their pairs."""
    document = explain(home, twin.objects[number]["object_id"], twin.insertions[key]["subscription_id"])
    assert document["problem"] is None and document["state"] in render_explain(document).lower()
    for pair in document["pairs"]:
        if pair["subscription"]["kind"] in ("knn", "topk"):
            expected = _expected(twin, batch, pair["object"]["object_key"], pair["subscription"]["subscription_key"])
            assert (pair["state"], pair["condition"], pair["answer"] and pair["answer"]["rank"]) == expected, pair


def _expected(
    twin: StandingTwin, batch: dict[str, Any], key: int, subscription_key: int
) -> tuple[str, str | None, int | None]:
    """State, first failed condition and rank, by plain comparisons."""
    request, counted = twin.insertions[subscription_key], twin.counted(batch["objects_to"])
    subscription = twin.subscription(request, batch)
    one = StandingObject(key, time_us(twin.objects[key]["ts"]))
    statistics = [position for position in twin.statistics if position <= batch["requests_to"]]
    value_of = partial(twin.value, max(statistics, default=0))
    withdrawn = one not in twin.counted(max(twin.objects))
    own = "withdrawn" if withdrawn else twin.first_failure(subscription, one)
    if key > batch["objects_to"] or request["request_key"] > batch["requests_to"]:
        return ("not in answer" if own else "pending"), own, None
    rank = _rank(subscription, counted, one, value_of)
    if own is None:
        own = _time_condition(subscription, counted, one)
    if own is None and rank is not None and rank > subscription.k:
        own = "rank"
    return ("in answer" if own is None else "not in answer"), own, rank if own in (None, "rank") else None


def _rank(
    subscription: StandingSubscription, counted: list[StandingObject], one: StandingObject, value_of: Any
) -> int | None:
    rows = ranked(subscription, counted, value_of)
    return next((place for place, row in enumerate(rows, 1) if row[0] == one.key), None)


def _time_condition(
    subscription: StandingSubscription, counted: list[StandingObject], one: StandingObject
) -> str | None:
    if not lives(subscription, counted):
        latest = stream_time_of(counted)
        return "created_at" if latest is None or latest < subscription.created_at else "end"
    return None if ranked(subscription, counted, lambda _, other: 0.0 if other == one else None) else "window"


def test_ticks_and_words_are_those_of_plain_counts(matched: Home) -> None:
    twin, home, seen = StandingTwin(matched), State(matched.path), Counter[str]()
    batch = twin.batches[-1]
    counted = twin.counted(batch["objects_to"])
    stream_time = stream_time_of(counted)
    assert stream_time is not None
    for name, box, k, window, step in REGIONS:
        region = Incarnation("", None, read_box(box), None, None, 0, None)
        inside = [
            (one, reported_words(parts_of(twin.objects[one.key]["text"] or "")))
            for one in counted
            if in_region(_published(twin.objects[one.key]), region)
        ]
        for thing in random.Random(k).sample(list(twin.objects.values()), 40):
            document = explain(home, thing["object_id"], name)
            assert document["problem"] is None, document
            for pair in document["pairs"]:
                key = pair["object"]["object_key"]
                words = [words for one, words in inside if one.key == key]
                ts = time_us(twin.objects[key]["ts"])
                first = -(-max(ts, time_us(moment(20))) // micros(step))
                ticks = [m * micros(step) for m in range(first, first + 200) if m * micros(step) < ts + micros(window)]
                reached = [tick for tick in ticks if tick <= stream_time]
                is_counted = bool(words and words[0] and reached)
                assert (pair["state"] == "counted") == is_counted, pair
                seen[pair["state"]] += 1
                if not is_counted:
                    continue
                assert (pair["answer"]["ticks"], pair["answer"]["later_ticks"]) == (
                    len(reached), len(ticks) - len(reached),
                )  # fmt: skip
                for word in pair["answer"].get("words", []):
                    tick = time_us(pair["answer"]["current_tick"])
                    of_tick = Counter(
                        w for one, words in inside if tick - micros(window) < one.ts <= tick for w in words
                    )
                    order = sorted(of_tick, key=lambda w: (-of_tick[w], w.encode()))
                    rank = order.index(word["word"]) + 1
                    missed = None if rank <= k else of_tick[order[k - 1]] - of_tick[word["word"]]
                    assert (word["count"], word["rank"]) == (of_tick[word["word"]], rank if rank <= k else None)
                    assert word["missed_by"] == missed
                    seen["words"] += 1
    assert seen["counted"] > 10 and seen["not counted"] and seen["words"] > 5, seen


def _published(row: dict[str, Any]) -> PublishedObject:
    return PublishedObject(row["object_id"], time_us(row["ts"]), row["lon"], row["lat"], frozenset())


def test_the_page_and_the_command_say_the_same(matched: Home, tmp_path: Path) -> None:
    from pststream.reports.pages import airflow_views

    twin = StandingTwin(matched)
    key, number = next(iter(twin.answers(twin.batches[-1])))
    object_id, subscription_id = twin.objects[number]["object_id"], twin.insertions[key]["subscription_id"]
    reason = explain(State(matched.path), object_id, subscription_id)["reason"]
    assert reason.split(";")[0] in airflow_views.object_page(str(matched.path), object_id, subscription_id).text
