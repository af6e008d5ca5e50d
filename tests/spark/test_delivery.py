"""Delivery after the real job: the messages of matches less those of retractions equal the export."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from pststream.queries.text.expression import parse_keywords
from pststream.queries.text.words import tokenize
from pststream.state.home import Home as Tables
from tests.commands import Home
from tests.kill_and_rerun import home_for, written
from tests.oracles.delivery import expected_messages


def messages_in(folder: Path) -> list[dict[str, Any]]:
    """The messages of a file sink, in their order."""
    return [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]


def pair(message: dict[str, Any]) -> tuple[str, str]:
    return message["object"]["object_id"], message["subscription"]["subscription_id"]


def test_a_stream_is_delivered_as_it_is_matched(tmp_path: Path) -> None:
    """Most objects come before the requests that end subscriptions, so that pairs are retracted."""
    world = written(tmp_path / "files", seed=7, files=4)
    home: Home = home_for(tmp_path / "home", world)
    home.add_sink("all", kind="file", target=str(tmp_path / "all"), messages=7)
    home.add_sink("few", kind="file", target=str(tmp_path / "few"), limit=1, limit_seconds=1_000_000_000)
    landing = tmp_path / "landing"
    for kind in ("objects", "requests"):
        (landing / kind).mkdir(parents=True)
    for things, asked in zip((world.objects[:3], [], world.objects[3:], []), world.requests):
        for file in things:
            shutil.copy(file, landing / "objects")
        shutil.copy(asked, landing / "requests")
        sinks = home.run("run", landing)["deliver"]["sinks"]
        assert [sink["state"] for sink in sinks.values()] == ["ok", "ok"]

    tables, messages = Tables(home.path), messages_in(tmp_path / "all")
    shown = ("id", "kind", "batch_id", "object", "subscription")
    expected = expected_messages(tables)
    assert [{k: m[k] for k in shown} for m in messages] == [{k: m[k] for k in shown} for m in expected]
    kinds = Counter(message["kind"] for message in messages)
    assert kinds["matched"] and kinds["retracted"]
    left = Counter(pair(m) for m in messages if m["kind"] == "matched")
    left.subtract(pair(m) for m in messages if m["kind"] == "retracted")
    assert +left == Counter((o, s) for o, _, s in home.exported())
    for message in messages:
        words, text = set(message["words"]), set(tokenize(message["object"]["text"]))
        assert words <= text
        assert all(words & set(clause) for clause in parse_keywords(message["subscription"]["keywords"]).required)

    few = messages_in(tmp_path / "few")
    assert [m["id"] for m in few] == [m["id"] for m in expected_messages(tables, 1, 1_000_000_000)]
    assert Counter(m["kind"] for m in few)["digest"]


def test_run_without_delivery(home: Home, tmp_path: Path) -> None:
    home.add_sink("all", kind="file", target=str(tmp_path / "all"))
    (tmp_path / "landing").mkdir()
    assert home.run("run", tmp_path / "landing", "--no-deliver")["deliver"] == {"sinks": {}}
    assert list(home.run("run", tmp_path / "landing")["deliver"]["sinks"]) == ["all"]
