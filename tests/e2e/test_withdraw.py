"""Withdrawn objects: whatever the cut, the matches that stay are those of a log in which only the others count.

Each test makes its world with objects of a wrong clock, and its twin without them from the withdrawal on.
"""

import datetime as dt
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pststream
from pststream.state.home import Home as State
from pststream.tables.ledgers import Ledger
from tests import worlds
from tests.commands import KILLED, Home, new_home, run_here
from tests.fuzz.cases import seeds
from tests.kill_and_rerun import table_of
from tests.oracles import twin, twin_expressions, twin_rows
from tests.oracles.twin_rows import LogFile

pytestmark = pytest.mark.e2e

LATENESS = 3600
ANYWHERE = {"bbox": [-180.0, -90.0, 180.0, 90.0]}


def expected(steps: list[tuple[str, Any]], lateness: int) -> tuple[set[tuple[str, int, str]], dict[str, int]]:
    """Return the matches and the number of rejected objects by reason after all steps, computed slowly."""
    outcome = twin.Outcome()
    objects, requests = twin.ObjectLog(outcome, lateness, twin_expressions.words_of), twin.RequestLog(outcome, 0)
    for what, value in steps:
        if what == "objects":
            objects.take(LogFile("objects", value))
        elif what == "requests":
            requests.take(LogFile("requests", value))
        elif what == "withdraw":
            objects.withdraw(twin.Withdrawal(frozenset(value)))
    lives = [life for of_id in requests.lives.values() for life in of_id]
    return twin.all_matches(objects.accepted, lives), outcome.reasons("objects")


def home_at(path: Path, **settings: Any) -> Home:
    more = {"lateness_seconds": LATENESS} | settings
    return new_home(path, engine="local", workers=3, cache_dir=str(path.parent / "cache"), gate_bad_share=1.0, **more)


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def thing(name: str, step: int, text: str = "coffee") -> dict[str, Any]:
    return {"object_id": name, "ts": worlds.moment(step), "lon": 1.0, "lat": 1.0, "text": text}


def asked(name: str, step: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "op": "insert", "subscription_id": name, "keywords": "coffee", "created_at": worlds.moment(step), **ANYWHERE,
    } | more  # fmt: skip


def ids_of(home: Home) -> set[str]:
    return {object_id for object_id, _, _ in home.exported()}


# Single rules -------------------------------------------------------------------------------------------------


def test_rows_that_a_wrong_clock_made_late_are_taken_in_again(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    home.ingest("requests", [lines(tmp_path / "r.jsonl", asked("s"))])
    home.ingest("objects", [lines(tmp_path / "1.jsonl", thing("a", 0), thing("wrong", 200))])
    second = lines(tmp_path / "2.jsonl", *(thing(f"b{n}", 1) for n in range(5)), thing("wrong", 1))
    assert home.ingest("objects", [second])["rejects_by_reason"] == {"late": 6}
    home.match()
    assert ids_of(home) == {"a", "wrong"}

    tried = home.run("withdraw", "--from", worlds.moment(100), "--dry-run")
    assert home.run("status")["watermark"] == worlds.moment(200) and tried["withdrawal_id"] is None
    done = home.run("withdraw", "--from", worlds.moment(100))
    assert {**tried, "dry_run": False, "withdrawal_id": 1} == done
    assert (done["objects"], done["matched_objects"]) == (1, 1)
    assert (done["watermark_before"], done["watermark_after"]) == (worlds.moment(200), worlds.moment(0))
    assert done["rejects"]["late"] == {"rows": 6}
    assert [Path(file["path"]).name for file in done["rejects"]["files"]] == ["2.jsonl"]
    status = home.run("status")
    assert (status["watermark"], status["withdrawals"]) == (worlds.moment(0), {"done": 1, "pending": 1, "set_aside": 0})
    assert "1 pending" in run_here("status", "--home", home.path).out

    retried = home.run("ingest", "objects", "--retry-rejects", "late")
    assert (retried["retried"], retried["accepted"]) == (6, 6)
    assert home.run("ingest", "objects", "--retry-rejects", "late")["retried"] == 0
    assert {row["retried_by"] for row in home.run("rejects")["rejects"]} == {5}
    assert home.match()["batches"][0]["retractions"] == 1
    assert home.exported() == sorted(
        (row["object_id"], twin_rows.time_us(row["ts"]), "s")
        for row in [thing("a", 0), thing("wrong", 1), *(thing(f"b{n}", 1) for n in range(5))]
    )
    assert home.run("status")["withdrawals"]["pending"] == 0
    asked_for = [{"kind": "knn", "point": {"lon": 1.0, "lat": 1.0}, "k": 1}, {"question_id": "all", **ANYWHERE}]
    asked_for.append(asked_for[1] | {"question_id": "hour", "window": "1h"})
    rows = pststream.open(home.path).ask(asked_for).to_pylist()
    assert worlds.moment(200) not in {row["ts"].isoformat().replace("+00:00", "Z") for row in rows}
    assert [sum(row["question_id"] == name for row in rows) for name in ("1", "all", "hour")] == [1, 7, 7]
    assert home.run("check", "--all")["success"]
    explained = home.run("explain", "wrong", "s")
    assert {pair["condition"] for pair in explained["pairs"]} == {None, "withdrawn"} and not explained["problem"]


def test_each_withdrawal_counts_the_late_rows_that_it_has_caused(tmp_path: Path) -> None:
    """Of rows that two clocks made late, the second withdrawal counts those that the first has left."""
    home = home_at(tmp_path / "home")
    home.ingest("objects", [lines(tmp_path / "1.jsonl", thing("a", 0), thing("ahead", 100))])
    home.ingest("objects", [lines(tmp_path / "2.jsonl", thing("far", 400))])
    late = lines(tmp_path / "3.jsonl", *(thing(f"b{step}", step) for step in (10, 20, 150, 200, 250)))
    assert home.ingest("objects", [late])["rejects_by_reason"] == {"late": 5}

    def late_rows(name: str, *more: str) -> int:
        return int(home.run("withdraw", "--object-id", name, *more)["rejects"]["late"]["rows"])

    assert [late_rows(name, "--dry-run") for name in ("ahead", "far")] == [0, 3]
    assert [late_rows(name) for name in ("far", "ahead")] == [3, 2]
    assert home.run("ingest", "objects", "--retry-rejects", "late")["accepted"] == 5


def test_a_withdrawal_counts_late_rows_though_an_earlier_one_is_of_an_older_file(tmp_path: Path) -> None:
    """The watermark of the first file of the second withdrawal still has the object of the first one."""
    home = home_at(tmp_path / "home")
    for number, object_id in enumerate(("first", "second"), start=1):
        home.ingest("objects", [lines(tmp_path / f"{number}.jsonl", thing(f"a{number}", 400), thing(object_id, 400))])
    home.run("withdraw", "--object-id", "a1", "--object-id", "a2")
    late = lines(tmp_path / "3.jsonl", *(thing(f"b{step}", step) for step in (10, 20)))
    assert home.ingest("objects", [late])["rejects_by_reason"] == {"late": 2}
    counts = [home.run("withdraw", "--object-id", name)["rejects"]["late"]["rows"] for name in ("first", "second")]
    assert counts == [0, 2]
    assert home.run("ingest", "objects", "--retry-rejects", "late")["accepted"] == 2


def test_subscriptions_that_are_indexed_under_another_clause_stay_as_they_are(tmp_path: Path) -> None:
    """A new plan keeps the clause of the old index if both are as frequent; the request alone would give the other."""
    home = home_at(tmp_path / "home", planner="frequency")
    both = asked("s", keywords="alpha AND beta", expires_at=worlds.moment(10))
    ended = asked("old", -100, keywords="gamma", expires_at=worlds.moment(-90))
    home.ingest("requests", [lines(tmp_path / "r.jsonl", both, ended)])
    often = [thing(f"a{n}", 0, "alpha") for n in range(5)]
    home.ingest("objects", [lines(tmp_path / "1.jsonl", *often, thing("b", 0, "beta"))])
    home.match()
    assert home.run("maintain")["dropped_rows"] == 1
    home.ingest("objects", [lines(tmp_path / "2.jsonl", *(thing(f"b{n}", 5, "beta") for n in range(4)))])
    home.match()
    home.run("plan")
    home.ingest("objects", [lines(tmp_path / "3.jsonl", thing("wrong", 200))])
    home.run("withdraw", "--object-id", "wrong")
    home.ingest("objects", [lines(tmp_path / "4.jsonl", thing("o", 5, "alpha beta"))])
    assert home.match()["matches"] == 1 and ids_of(home) == {"o"}
    assert home.run("check", "--all")["success"]


def test_sinks_get_retractions(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    home.add_sink("sent", kind="file", target=str(tmp_path / "sent"))
    home.ingest("requests", [lines(tmp_path / "r.jsonl", asked("s"))])
    home.ingest("objects", [lines(tmp_path / "1.jsonl", thing("a", 0), thing("wrong", 200))])
    sent = []
    for withdrawn in (False, True):
        if withdrawn:
            home.run("withdraw", "--object-id", "wrong")
        home.match()
        home.run("deliver")
        files = sorted((tmp_path / "sent").iterdir())
        sent.append([json.loads(line) for file in files for line in file.read_text().splitlines()])
    assert [(one["kind"], one["object"]["object_id"]) for one in sent[1][len(sent[0]) :]] == [("retracted", "wrong")]


def test_a_replay_leaves_out_what_was_withdrawn_before_it(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    home.ingest("objects", [lines(tmp_path / "1.jsonl", thing("a", 0), thing("wrong", 200))])
    home.match()
    home.run("withdraw", "--object-id", "wrong")
    home.match()
    home.ingest("objects", [lines(tmp_path / "2.jsonl", thing("b", 1))])
    home.match()
    home.ingest("requests", [lines(tmp_path / "r.jsonl", asked("late"))])
    home.match()
    assert ids_of(home) == {"a", "b"}
    assert home.run("replay", "--last", "1")["matches_equal"]


def test_what_is_selected(tmp_path: Path) -> None:
    """The conditions hold together; what is withdrawn already is not withdrawn again."""
    home = home_at(tmp_path / "home")
    files = [lines(tmp_path / f"{n}.jsonl", *(thing(f"{n}-{step}", step) for step in range(4))) for n in range(2)]
    home.ingest("objects", files)
    ids = tmp_path / "ids.txt"
    ids.write_text("0-0\n1-0\n")
    in_file = ("--file", files[0])
    for count, arguments in (
        (4, in_file), (1, (*in_file, "--object-ids", ids)), (2, ("--object-ids", ids)), (1, ("--object-id", "1-3")),
        (4, ("--from", worlds.moment(2))), (2, ("--from", worlds.moment(1), "--before", worlds.moment(2))),
        (0, ("--object-id", "unknown")),
    ):  # fmt: skip
        assert home.run("withdraw", *arguments, "--dry-run")["objects"] == count
    home.run("withdraw", "--object-id", "0-0")
    assert home.run("withdraw", *in_file)["objects"] == 3
    again = home.run("withdraw", *in_file)
    assert (again["objects"], again["withdrawal_id"], again["watermark_after"]) == (0, None, worlds.moment(3))
    assert home.run("withdraw", "--from", worlds.moment(0))["watermark_after"] is None
    home.match()
    assert home.run("check", "--all")["success"]
    home.run("withdraw", code=2)
    home.run("withdraw", "--file", tmp_path / "other.jsonl", code=2)
    home.run("withdraw", "--from", "soon", code=2)
    home.run("ingest", "objects", "--retry-rejects", "not_json", code=2)
    home.run("ingest", "objects", code=2)
    home.run("ingest", "requests", "--retry-rejects", "late", code=2)


def test_subscriptions_that_maintain_dropped_match_earlier_objects_again(tmp_path: Path) -> None:
    """Under two active plans too; `s` expired and `d` was deleted before the wrong clock's horizon, `e` before both."""
    home = home_at(tmp_path / "home")
    requests = [
        asked("s", expires_at=worlds.moment(20)), asked("d"), asked("e", expires_at=worlds.moment(1)), asked("l"),
        {"op": "delete", "subscription_id": "d", "at": worlds.moment(21)},
    ]  # fmt: skip
    home.ingest("requests", [lines(tmp_path / "r.jsonl", *requests)])
    home.ingest("objects", [lines(tmp_path / "1.jsonl", thing("a", 10), thing("wrong", 250))])
    home.match()
    home.run("balance", "global", "--planner", "grid", "--apply")
    more = lines(tmp_path / "more.jsonl", asked("n", expires_at=worlds.moment(19)))
    home.ingest("requests", [more])
    home.match()
    assert home.run("maintain")["dropped_rows"] > 0
    crashed = home.crash("withdraw.restored", "withdraw", "--object-id", "wrong")
    assert crashed.code == KILLED and home.run("check", "--all")["success"]
    home.run("withdraw", "--object-id", "wrong")
    home.ingest("objects", [lines(tmp_path / "2.jsonl", thing("b", 18))])
    home.match()
    assert [s for o, _, s in home.exported() if o == "b"] == ["d", "l", "n", "s"]
    assert home.run("check", "--all")["success"]


def test_a_retry_that_is_killed_doubles_nothing(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    home.ingest("objects", [lines(tmp_path / "1.jsonl", thing("wrong", 200))])
    home.ingest("objects", [lines(tmp_path / "2.jsonl", *(thing(f"b{n}", 1) for n in range(5)))])
    home.run("withdraw", "--object-id", "wrong")
    retry = ("ingest", "objects", "--retry-rejects", "late")
    for step in ("retry.written", "ingest.started", "ingest.objects_written"):
        assert home.crash(step, *retry).code == KILLED
        home.run("maintain")
        assert len(list(home.path.glob("retries/*"))) == (step != "retry.written")
    assert home.run(*retry)["retried"] == 0
    assert home.run("status")["totals"]["objects"] == 6
    assert not list(home.path.glob("retries/*"))
    home.match()
    assert home.run("check", "--all")["success"]


def test_an_erased_object_is_not_retried(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    home.ingest("objects", [lines(tmp_path / "1.jsonl", thing("wrong", 200))])
    home.ingest("objects", [lines(tmp_path / "2.jsonl", thing("b0", 1, "secret"), thing("b1", 1))])
    home.run("withdraw", "--object-id", "wrong")
    assert home.run("erase", "--object-id", "b0")["rows"] == {"rejects": 1}
    assert "secret" not in str(table_of(home, "rejects").to_pyarrow_table().to_pylist())
    assert home.run("ingest", "objects", "--retry-rejects", "late")["accepted"] == 1
    assert home.run("check")["success"]


def test_future_rows_are_accepted_when_their_time_has_come(tmp_path: Path) -> None:
    """The clock is that of the retry: here the setting stands for its passing."""
    home = home_at(tmp_path / "home", max_ahead_seconds=1)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=30)
    home.ingest("objects", [lines(tmp_path / "1.jsonl", thing("o", 0) | {"ts": later.isoformat()})])
    retry = ("ingest", "objects", "--retry-rejects", "future")
    assert home.run(*retry)["rejects_by_reason"] == {"future": 1}
    home.set(max_ahead_seconds=3600)
    done = home.run(*retry)
    assert (done["retried"], done["accepted"]) == (1, 1) and home.run(*retry)["retried"] == 0


# Random worlds ------------------------------------------------------------------------------------------------


def random_steps(folder: Path, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield the files of a world with objects of a wrong clock, and withdrawals between them."""
    rnd = random.Random(seed)
    world = worlds.random_world(seed, objects=180, requests=90, files=6)
    seen: list[str] = []
    folder.mkdir()
    for number, (things, requests) in enumerate(zip(world.object_files, world.request_files)):
        yield "requests", lines(folder / f"requests-{number}.jsonl", *requests)
        wrong = [thing(f"wrong-{number}-{n}", rnd.randrange(250, 400), "coffee free tea") for n in range(2)]
        rows = things + (wrong if rnd.random() < 0.7 else [])
        rnd.shuffle(rows)
        seen += [row["object_id"] for row in rows if isinstance(row.get("object_id"), str) and row["object_id"]]
        yield "objects", lines(folder / f"objects-{number}.jsonl", *rows)
        if rnd.random() < 0.6:
            wanted = [name for name in seen if name.startswith("wrong") or rnd.random() < 0.1]
            yield "withdraw", set(wanted)


@seeds(2)
def test_the_matches_are_those_of_the_twin_whatever_the_cut(seed: int, tmp_path: Path) -> None:
    steps = list(random_steps(tmp_path / "files", seed))
    pairs, reasons = expected(steps, worlds.LATENESS_STEPS * 600)
    rnd = random.Random(seed)
    for cut in ("each step", "end", "random"):
        home = home_at(tmp_path / cut.replace(" ", "-"), lateness_seconds=worlds.LATENESS_STEPS * 600)
        for number, (what, value) in enumerate(steps):
            if what == "withdraw":
                ids = tmp_path / f"ids-{number}.txt"
                ids.write_text("\n".join(sorted(value)) + "\n")
                home.run("withdraw", "--object-ids", ids)
            else:
                home.ingest(what, [value])
            if cut == "each step" or (cut == "random" and rnd.random() < 0.4):
                home.match(*(("--max-objects", "17") if rnd.random() < 0.5 else ()))
            if cut == "random" and rnd.random() < 0.3:
                home.run("maintain")
        home.match()
        exported = home.exported()
        assert len(exported) == len(set(exported)) and set(exported) == pairs
        rejected = {reason: count for (kind, reason), count in home.rejects().items() if kind == "objects"}
        assert {reason: rejected.get(reason, 0) for reason in ("late", "duplicate")} == {
            reason: reasons.get(reason, 0) for reason in ("late", "duplicate")
        }
        failed = [one["failed"] for one in home.run("check", "--all")["checks"] if not one["success"]]
        assert failed == []
        if cut == "random":
            replayed = home.run("replay", "--last", "3", "--planner", "grid")
            assert replayed["matches_equal"]
    assert Ledger(State(home.path)).watermark() is not None
