"""Make random worlds of objects and subscriptions with memory, and compare the answers of a home with the twin."""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pststream
from pststream.state.home import Home as State
from pststream.tables.delta_tables import read_table
from tests import worlds
from tests.commands import Home, new_home
from tests.oracles import text as slow
from tests.oracles.questions import float32
from tests.oracles.scored_subscriptions import Message, Scored, score
from tests.oracles.standing_answers import StandingObject, StandingSubscription, answer, stream_time_of
from tests.oracles.standing_log import AnswerRow, ExpectedRows
from tests.oracles.twin_expressions import holds, parse, parts_of, words_that_count
from tests.oracles.twin_regions import distance_m
from tests.oracles.twin_rows import meets, raw_attributes, time_us
from tests.worlds import WrittenWorld

Insertion = Callable[[random.Random, str, int], worlds.Row]
"""Draws an insertion of an id that is valid from a step on."""

ANSWER_BUCKETS = 3
"""Fewer than the default: each batch writes files for each bucket, and these worlds have some tens of subscriptions."""

WINDOWS = (None, None, "600s", "1h", "10h", {"objects": 1}, {"objects": 10}, {"objects": 50})


def write_standing_world(
    folder: Path,
    seed: int,
    files: int,
    objects: int = 150,
    subscriptions: int = 50,
    kinds: Sequence[Insertion] | None = None,
) -> WrittenWorld:
    """Write a world of objects, subscriptions of kinds with memory (`knn` and `topk`), and some of `range`."""
    rnd = random.Random(seed)
    things = worlds.object_log(rnd, objects)
    lives = [_life(rnd, f"n{number}", kinds or (nearest, scored)) for number in range(subscriptions)]
    requests = _interleave(rnd, [*lives, worlds.request_log(rnd, 15)])
    folder.mkdir(parents=True)
    return WrittenWorld(
        _write(folder, "objects", things, files), _write(folder, "requests", requests, files),
        worlds.LATENESS_STEPS * 600,
    )  # fmt: skip


def _write(folder: Path, kind: str, rows: worlds.Rows, files: int) -> list[Path]:
    paths = []
    for number in range(files):
        part = rows[len(rows) * number // files : len(rows) * (number + 1) // files]
        paths.append(folder / f"{kind}-{number:02}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in part))
    return paths


def requests_of_all_kinds(rnd: random.Random, count: int) -> worlds.Rows:
    """Draw requests; about one in five is of a subscription with memory."""
    lives, kinds = [worlds.request_log(rnd, count * 4 // 5)], (nearest, scored, reported)
    while sum(map(len, lives)) < count:
        lives.append(_life(rnd, f"n{len(lives)}", kinds))
    return _interleave(rnd, lives)


def _interleave(rnd: random.Random, lives: list[worlds.Rows]) -> worlds.Rows:
    """Mix lives at random, each in its order."""
    owners = [number for number, life in enumerate(lives) for _ in life]
    rnd.shuffle(owners)
    rows = [iter(life) for life in lives]
    return [next(rows[owner]) for owner in owners]


def _life(rnd: random.Random, subscription_id: str, kinds: Sequence[Insertion]) -> worlds.Rows:
    """Draw insertions and deletions of one id."""
    step = rnd.randint(-20, worlds.STEPS * 2 // 3)
    rows = [rnd.choice(kinds)(rnd, subscription_id, step)]
    while rnd.randrange(3) == 0:
        step += rnd.choice((0, 5, 20, 60, 120))
        rows.append({"op": "delete", "subscription_id": subscription_id, "at": worlds.moment(step)})
        if rnd.randrange(2) == 0:
            step += rnd.choice((0, 0, 10))
            rows.append(rnd.choice(kinds)(rnd, subscription_id, step))
            if rnd.randrange(2) == 0:
                rows[-2:] = [worlds.as_replacement(rows[-1])]
    return rows


def nearest(rnd: random.Random, subscription_id: str, step: int) -> worlds.Row:
    """Draw an insertion of the kind `knn`."""
    lon, lat = worlds.some_point(rnd)
    row: worlds.Row = {
        "op": "insert",
        "subscription_id": subscription_id,
        "kind": "knn",
        "keywords": worlds.some_expression(rnd, 1),
        "point": {"lon": lon, "lat": lat},
        "k": rnd.choice((1, 2, 3, 5, 10)),
        "created_at": worlds.moment(step),
    }
    row |= worlds.some_where(f"{subscription_id} {step}")
    if rnd.randrange(8) == 0:
        row["keywords"] = "*"
    if rnd.randrange(4) == 0:
        row["max_distance_m"] = rnd.choice((0, 1_000, 2_500.5, 5_000_000))
    window = rnd.choice(WINDOWS)
    if window is not None:
        row["window"] = window
    if rnd.randrange(4) == 0:
        row["expires_at"] = worlds.moment(step + rnd.choice((1, 10, 50, 100)))
    return row


def scored(rnd: random.Random, subscription_id: str, step: int) -> worlds.Row:
    """Draw an insertion of the kind `topk`."""
    row = nearest(rnd, subscription_id, step)
    row.pop("max_distance_m", None)
    row |= {
        "kind": "topk",
        "keywords": _scored_words(rnd),
        "alpha": rnd.choice((0, 0.1, 0.5, 0.9, 1)),
        "window": rnd.choice(WINDOWS[2:]),
    }
    if rnd.randrange(2) == 0:
        row["distance_scale_m"] = rnd.choice((1.0, 1000.0, 50_000.0))
    return row


def _scored_words(rnd: random.Random) -> str:
    """Draw some words, one time in four two of them as a phrase that is not rare, and one in five another after NOT."""
    *words, other = rnd.sample(worlds.WORDS, rnd.choice((2, 3, 5)))
    if rnd.randrange(4) == 0:
        words.append(f'"{" ".join(rnd.choices(worlds.WORDS[:3], k=2))}"')
    if rnd.randrange(5) == 0 and other not in worlds.WORDS[:3]:
        words.append(f"NOT {other}")
    return " ".join(words)


def reported(rnd: random.Random, subscription_id: str, step: int) -> worlds.Row:
    """Draw an insertion of the kind `frequent_terms`."""
    window, every = rnd.choice((("1h", "1h"), ("10h", "2h"), ("20m", "3h"), ("1d", "10h")))
    row: worlds.Row = {
        "op": "insert",
        "subscription_id": subscription_id,
        "kind": "frequent_terms",
        **rnd.choice((worlds.some_region(rnd), {"bbox": [-180.0, -90.0, 180.0, 90.0]})),
        "k": rnd.choice((1, 2, 5, 100)),
        "window": window,
        "step": every,
        "created_at": worlds.moment(step),
        **worlds.some_where(f"{subscription_id} {step}"),
        **worlds.some_stop_words(f"{subscription_id} {step}"),
    }
    if rnd.randrange(4) == 0:
        row["expires_at"] = worlds.moment(step + rnd.choice((1, 10, 50, 100)))
    return row


def wordless(rnd: random.Random, subscription_id: str, step: int) -> worlds.Row:
    """Draw an insertion of the kind `range` for every object."""
    head = {"op": "insert", "subscription_id": subscription_id, "keywords": "*", "created_at": worlds.moment(step)}
    return head | worlds.some_region(rnd)


def standing_home(path: Path, world: WrittenWorld, **settings: Any) -> Home:
    """Make a home for a world, with ANSWER_BUCKETS buckets; `settings` change its settings."""
    chosen = {"planner": "grid", "workers": 3, "engine": "local", **settings}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSTSTREAM_ANSWER_BUCKETS", str(ANSWER_BUCKETS))
        return new_home(path, lateness_seconds=world.lateness_seconds, **chosen)


STANDING_ERRORS = (
    *("answers_lost", "answers_wrong", "answers_misplaced", "changes_lost", "changes_doubled", "changes_wrong"),
)
"""What `count_standing` counts that must be 0."""


def match_under_changing_plans(home: Home, world: WrittenWorld) -> None:
    """Match seven files, with new plans, a migration, its undo and upkeep in between; answers must be the twin's."""
    between = ([], ["plan", "--workers", "4"], ["maintain"], ["balance", "global", "--planner", "kd_tree", "--apply"],
               ["balance", "undo", "--apply"], ["maintain"], ["plan", "--workers", "2"])  # fmt: skip
    home.set(repartition_gain=0.0)
    moved = False
    for requests, objects, command in zip(world.requests, world.objects, between, strict=True):
        home.ingest("requests", [requests])
        home.ingest("objects", [objects])
        if command and (command[1:2] != ["undo"] or moved):
            moved = bool(home.run(*command).get("moves"))
        home.match("--max-objects", "11")
    StandingTwin(home).assert_answers_after_each_batch()
    assert home.run("check")["success"]


def count_standing(home: Home, expected: ExpectedRows) -> dict[str, int]:
    """Count the rows of answers and reports, and those that the answers now, or the sum of all changes, lack or add."""
    now, ever = expected.answers | expected.last_reports, expected.answers | expected.reports
    opened, shown, summed = pststream.open(home.path), list[AnswerRow](), Counter[AnswerRow]()
    misplaced, ranks = 0, Counter[tuple[str, Any]]()
    for row in opened.answers().to_pylist():
        shown.append(_answer_row(row))
        of_one = row["subscription_id"], row["as_of"]
        ranks[of_one] += 1
        misplaced += row["rank"] != ranks[of_one]
    for row in opened.changes().to_pylist():
        summed[_answer_row(row)] += 1 if row["change"] == "entered" else -1
    return {
        "standing_answers": len(expected.answers),
        "standing_reports": len(expected.reports),
        "answers_lost": len(now - set(shown)),
        "answers_wrong": len(shown) - len(now & set(shown)),
        "answers_misplaced": misplaced,
        "changes_lost": sum(summed[row] < 1 for row in ever),
        "changes_doubled": sum(count not in (0, 1) for count in summed.values()),
        "changes_wrong": len(set(+summed) - ever),
    }


def _answer_row(row: dict[str, Any]) -> AnswerRow:
    """Return an exported row of an answer, a report or a change."""
    if row["kind"] == "frequent_terms":
        return AnswerRow(row["subscription_id"], time_us(row["as_of"].isoformat()), row["term"], row["count"])
    value = row["score"] if row["kind"] == "topk" else row["distance_m"]
    return AnswerRow(row["subscription_id"], time_us(row["ts"].isoformat()), row["object_id"], value)


class StandingTwin:
    """The rows of a home's logs, and the answers that the twin computes from them."""

    def __init__(self, home: Home) -> None:
        self._state = State(home.path)
        requests = self._rows("requests")
        self.objects = {row["object_key"]: row for row in self._rows("objects")}
        self.insertions = {
            r["request_key"]: r for r in requests if r["op"] == "insert" and r["kind"] in ("knn", "topk")
        }
        self.deletions = [row for row in requests if row["op"] == "delete"]
        replaced = [row for row in requests if row["replaced_key"] is not None]
        self.deletions += [{**row, "subscription_key": row["replaced_key"]} for row in replaced]
        self.batches = [row for row in self._rows("batches") if row["status"] == "done"]
        self.batches.sort(key=lambda row: row["batch_id"])
        files = self._rows("files")
        self._positions = {
            row["withdrawal_id"]: row["file_seq"] << 32 | 1 for row in files if row["withdrawal_id"] is not None
        }
        self._withdrawn = self._rows("withdrawals")
        self.statistics = sorted(row["file_seq"] << 32 for row in files if row["statistics_version"] is not None)
        self._documents: dict[int, tuple[int, Counter[int]]] = {}
        self._values: dict[tuple[int, int, int], float | None] = {}

    def _rows(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = read_table(self._state.table(name)).to_pylist()
        return rows

    def counted(self, objects_to: int) -> list[StandingObject]:
        """Return the objects that count up to a position."""
        gone = {r["log_key"] for r in self._withdrawn if self._positions[r["withdrawal_id"]] <= objects_to}
        return [
            StandingObject(key, time_us(row["ts"]))
            for key, row in self.objects.items()
            if key <= objects_to and key not in gone
        ]

    def answers(self, batch: dict[str, Any]) -> dict[tuple[int, int], tuple[int, float]]:
        """Return (ts, value) by (subscription key, object key) after a batch."""
        counted, rows = self.counted(batch["objects_to"]), {}
        statistics = [position for position in self.statistics if position <= batch["requests_to"]]
        value_of = partial(self.value, max(statistics, default=0))
        for key, request in self.insertions.items():
            if key <= batch["requests_to"]:
                for object_key, ts, value in answer(self.subscription(request, batch), counted, value_of):
                    rows[key, object_key] = ts, value
        return rows

    def subscription(self, request: dict[str, Any], batch: dict[str, Any]) -> StandingSubscription:
        key, created_at = request["request_key"], time_us(request["effective_at"])
        ends = [
            time_us(row["effective_at"])
            for row in self.deletions
            if row["subscription_key"] == key and row["request_key"] <= batch["requests_to"]
        ]
        if request["expires_at"] is not None:
            ends.append(time_us(request["expires_at"]))
        has_window = request["window_us"] is not None or request["window_objects"] is not None
        counts_from, end_at = None if has_window else created_at, min(ends, default=None)
        return StandingSubscription(
            key, request["k"], request["window_us"], request["window_objects"], counts_from, created_at, end_at
        )

    def value(self, statistics: int, subscription: StandingSubscription, one: StandingObject) -> float | None:
        """Return the distance or the score below 0; statistics: position of the version in force, 0: none."""
        return None if self.first_failure(subscription, one) else self._value(statistics, subscription.key, one.key)

    def first_failure(self, subscription: StandingSubscription, one: StandingObject) -> str | None:
        """Name the first condition that an object fails, whatever stream time and other objects are; None: none."""
        request, thing = self.insertions[subscription.key], self.objects[one.key]
        most, where = request["max_distance_m"], request["conditions"]
        if request["kind"] == "topk":
            has_words = self._value(0, subscription.key, one.key) is not None
        else:
            has_words = not request["keywords"] or holds(parse(request["keywords"]), parts_of(thing["text"]))
        if not has_words:
            return "keywords"
        if most is not None and self._value(0, subscription.key, one.key) > float32(most):
            return "max_distance_m"
        if subscription.counts_from is not None and one.ts < subscription.counts_from:
            return "created_at"
        return None if not where or meets(where, raw_attributes(thing["attributes"])) else "where"

    def _value(self, statistics: int, key: int, object_key: int) -> float | None:
        place = statistics, key, object_key
        if place not in self._values:
            request, thing = self.insertions[key], self.objects[object_key]
            point = request["lon"], request["lat"]
            is_scored = request["kind"] == "topk"
            away = None if is_scored else float32(distance_m(*point, thing["lon"], thing["lat"]))
            self._values[place] = self._scored(*place) if is_scored else away
        return self._values[place]

    def _scored(self, statistics: int, key: int, object_key: int) -> float | None:
        request, thing = self.insertions[key], self.objects[object_key]
        words = tuple(term for (term,) in request["clauses"])
        subscription = Scored(key, request["lon"], request["lat"], words, request["alpha"], request["distance_scale_m"])
        message = Message(object_key, thing["lon"], thing["lat"], tuple(thing["terms"]))
        _, counting = words_that_count(parse(request["keywords"]), parts_of(thing["text"]))
        weights = self._weights(statistics, {*words, *thing["terms"]})
        value = score(subscription, message, weights, {slow.term_id(word) for word in counting})
        return None if value is None else float32(-value)

    def _weights(self, statistics: int, words: set[int]) -> dict[int, float]:
        """Return the weights of words by the objects that counted when a version of the statistics was made."""
        if not statistics:
            return {}
        if statistics not in self._documents:
            counted = self.counted(statistics)
            self._documents[statistics] = (
                len(counted), Counter(term for one in counted for term in self.objects[one.key]["terms"])
            )  # fmt: skip
        total, documents = self._documents[statistics]
        return {word: round(math.log(1 + total / max(documents[word], 1)) * 65_536) / 65_536 for word in words}

    def assert_answers_after_each_batch(self) -> None:
        """Assert that the changes of all batches up to each one add up to the answers of the twin, `knn` and `topk`."""
        rows = read_table(self._state.table("answer_log")).to_pylist()
        changes = [row for row in rows if row["part"] == "change" and row["subscription_key"] in self.insertions]
        current: dict[tuple[int, int], tuple[int, float]] = {}
        for batch in self.batches:
            of_batch = [row for row in changes if row["batch_id"] == batch["batch_id"]]
            for row in sorted(of_batch, key=lambda row: row["event"] == "entered"):
                pair = row["subscription_key"], row["object_key"]
                if row["event"] == "left":
                    del current[pair]
                else:
                    assert pair not in current, f"batch {batch['batch_id']}: {pair} entered twice"
                    current[pair] = time_us(row["ts"]), row["value"]
            latest = stream_time_of(self.counted(batch["objects_to"]))
            assert latest == (None if batch["stream_time"] is None else time_us(batch["stream_time"]))
            assert current == self.answers(batch), f"batch {batch['batch_id']}"
