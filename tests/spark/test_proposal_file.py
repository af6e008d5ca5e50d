"""A proposal is applied exactly as it was shown: after more batches, after a kill; a stale one is refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands import KILLED, Home
from tests.unbalanced_homes import assert_as_the_twin, home_for, written
from tests.worlds import WrittenWorld

DECIDED = ("reason", "measured_imbalance", "moves", "load_before", "load_after", "expected_gain", "plan_version_after")


@pytest.fixture
def world(tmp_path: Path) -> WrittenWorld:
    return written(tmp_path / "files", 47)


def ingest_files(home: Home, world: WrittenWorld, files: slice) -> None:
    home.ingest("objects", world.objects[files])
    home.ingest("requests", world.requests[files])
    home.match()


def decided(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in DECIDED}


@pytest.mark.slow
def test_a_proposal_is_applied_after_further_batches(tmp_path: Path, world: WrittenWorld) -> None:
    home = home_for(tmp_path / "home", world, "grid")
    for number, (kind, *options) in enumerate([("global", "--planner", "hybrid"), ("local",)]):
        ingest_files(home, world, slice(3 * number, 3 * number + 2))
        file, page = tmp_path / "pages" / f"{kind}.npz", tmp_path / "pages" / f"{kind}.html"
        shown = home.run("balance", kind, *options, "--dry-run", "--proposal", file, "--page", page)
        assert shown["moves"], kind
        text = page.read_text("utf-8")
        assert "proposed, nothing changed yet" in text and f"{shown['moved_subscriptions']:,}" in text
        ingest_files(home, world, slice(3 * number + 2, 3 * number + 3))
        done = home.run("balance", kind, "--apply", "--proposal", file, "--page", page)
        assert decided(done) == decided(shown)
        assert "applied" in page.read_text("utf-8")
        again = home.run("balance", kind, "--apply", "--proposal", file)
        assert {**again, "seconds": 0} == {**done, "seconds": 0}, "done already: said again, not done again"
        assert home.run("status")["plan"]["version"] == done["plan_version_after"]
    history = home.run("balance", "history")["plans"]
    assert [row["kind"] for row in history] == ["plan", "global", "local"]
    assert [row["batches"] for row in history] == [[1, 2], [3, 4], []]
    assert_as_the_twin(home, world)


@pytest.mark.deep
def test_a_stale_proposal_is_refused(tmp_path: Path, world: WrittenWorld) -> None:
    home = home_for(tmp_path / "home", world, "grid")
    ingest_files(home, world, slice(0, 3))
    file = tmp_path / "local.npz"
    home.run("balance", "local", "--dry-run", "--proposal", file)
    assert "kind local" in home.run("balance", "global", "--apply", "--proposal", file, code=2)["error"]
    other = home_for(tmp_path / "other", world, "kd_tree")
    ingest_files(other, world, slice(0, 1))
    assert "of another home" in other.run("balance", "local", "--apply", "--proposal", file, code=2)["error"]
    home.run("plan")
    refused = home.run("balance", "local", "--apply", "--proposal", file, code=2)
    assert "changes plan 1, and plan 2 is in force" in refused["error"]
    home.set(sigma=100_000.0)
    assert home.run("balance", "local", "--dry-run", "--proposal", file)["moves"] == []
    assert "is not there" in home.run("balance", "local", "--apply", "--proposal", file, code=2)["error"]
    ingest_files(home, world, slice(3, 6))
    assert_as_the_twin(home, world)


@pytest.mark.slow
def test_killed_while_it_is_applied_and_run_again(tmp_path: Path, world: WrittenWorld) -> None:
    home = home_for(tmp_path / "home", world, "grid")
    ingest_files(home, world, slice(0, 3))
    apply = ("balance", "local", "--apply", "--proposal", tmp_path / "local.npz")
    shown = home.run("balance", "local", "--dry-run", "--proposal", tmp_path / "local.npz")
    killed = home.crash("balance.units_written", *apply)
    assert killed.code == KILLED, killed.err[-2000:]
    assert decided(home.run(*apply)) == decided(shown)
    assert home.run("status")["plan"]["version"] == 2
    ingest_files(home, world, slice(3, 6))
    assert_as_the_twin(home, world)


def test_the_balance_check_changes_nothing(tmp_path: Path, world: WrittenWorld) -> None:
    home = home_for(tmp_path / "home", world, "grid")
    assert home.run("balance", "check") == {
        "plan_version": 0, "batches": 0, "measured_imbalance": 1.0, "sigma": 1.0001, "violated": False,
    }  # fmt: skip
    assert home.run("balance", "history") == {"plans": []}
    ingest_files(home, world, slice(0, 6))
    found = home.run("balance", "check")
    assert found["violated"] and found["plan_version"] == 1 and found["batches"] == 1
    assert found["measured_imbalance"] == home.run("balance", "local")["measured_imbalance"]
    assert not home.run("balance", "check", "--sigma", "100000")["violated"]
    [first] = home.run("balance", "history")["plans"]
    assert first["measured"] == found["measured_imbalance"]
