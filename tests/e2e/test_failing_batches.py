"""A batch that can never end gets smaller ranges; the object that kills it is set aside, and the answers are as if it
had been withdrawn.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.errors import RetryableError
from pststream.pipeline.batch import failed_tries, micro_batch, route_task
from pststream.pipeline.batch.failed_tries import FAILING, TRYING
from pststream.settings import load_settings
from pststream.state.home import Home as State
from pststream.tables.ledgers import Ledger
from tests.command_process import SERVER, run_command
from tests.commands import KILLED, Home, new_home
from tests.e2e.test_withdraw import asked, lines, thing

pytestmark = pytest.mark.e2e

KNN = {"keywords": None, "bbox": None, "kind": "knn", "point": {"lon": 1.0, "lat": 1.0}, "k": 3, "window": "1h"}
MOST_DEATHS = 20


def _run_with_killer(kind: str, words: list[str], environment: dict[str, str], err: str) -> None:
    """Run a command that dies when an object with this id is routed, or, of "any", any object."""
    find_workers = route_task._find_workers

    def die(objects: pa.RecordBatch, *others: Any) -> Any:
        ids = objects.column("object_id").to_pylist()
        if kind in ids or (kind == "any" and ids):
            os.kill(os.getpid(), signal.SIGKILL)
        return find_workers(objects, *others)

    route_task._find_workers = die
    run_command(words, environment, os.devnull, err, str(Path.cwd()))


def run_beside(kind: str, home: Home, *words: str) -> int | None:
    """Return the exit code of a command in a process that an object kills."""
    arguments = [*words, "--home", str(home.path)]
    process = SERVER.Process(
        target=_run_with_killer, args=(kind, arguments, dict(os.environ), f"{home.path}-err"), daemon=True
    )
    process.start()
    process.join(500)
    return process.exitcode


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return filled(tmp_path / "home")


def filled(path: Path) -> Home:
    home = new_home(path, engine="local", workers=3, planner="grid", answer_buckets=2, lateness_seconds=3600)
    folder = path.parent
    near = {name: value for name, value in (asked("near") | KNN).items() if value is not None}
    home.ingest("requests", [lines(folder / "r.jsonl", asked("s"), near)])
    home.ingest("objects", [lines(folder / "0.jsonl", thing("early", 0))])
    home.match()
    things = [thing("killer" if n == 6 else f"o{n}", n) for n in range(1, 11)]
    home.ingest("requests", [lines(folder / "later.jsonl", asked("later", 2))])
    home.ingest("objects", [lines(folder / "1.jsonl", *things[:7]), lines(folder / "2.jsonl", *things[7:])])
    return home


def answers_of(home: Home) -> list[tuple[Any, ...]]:
    out = home.path.parent / f"{home.path.name}-answers.parquet"
    home.run("export", "answers", "--out", out)
    rows = pq.read_table(out).select(["subscription_id", "object_id", "rank"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.promise
def test_an_object_that_kills_its_batch_is_set_aside(home: Home, tmp_path: Path) -> None:
    codes = []
    while not codes or (codes[-1] == KILLED and len(codes) <= MOST_DEATHS):
        codes.append(run_beside("killer", home, "match", "--until-empty"))
    assert codes[-1] == 0 and len(codes) > 3, Path(f"{home.path}-err").read_text()[-3000:]
    (reject,) = home.run("rejects")["rejects"]
    assert (Path(reject["file"]).name, reject["row"], reject["reason"]) == ("1.jsonl", 6, "set_aside")
    assert reject["raw"] == "killer"
    assert home.run("status")["withdrawals"] == {"done": 1, "pending": 0, "set_aside": 1}
    home.run("check", "--all")
    assert "set an object aside" in Path(f"{home.path}-err").read_text()
    twin = filled(tmp_path / "twin")
    twin.run("withdraw", "--object-id", "killer")
    twin.match()
    assert home.exported() == twin.exported()
    assert answers_of(home) == answers_of(twin)
    # The log says so: a replay does not match the object either, and a copy of it counts as new.
    assert home.run("replay", "--last", "4")["matches_equal"]
    later = lines(tmp_path / "3.jsonl", thing("killer", 11))
    assert home.ingest("objects", [later])["accepted"] == 1
    home.match()
    assert not [name for name in (FAILING, TRYING) if (home.path / name).exists()]


@pytest.mark.parametrize("command", ["erase", pytest.param("withdraw", marks=pytest.mark.deep)])
def test_a_command_does_not_finish_a_batch_that_fails(home: Home, tmp_path: Path, command: str) -> None:
    assert run_beside("killer", home, "match", "--until-empty") == KILLED
    assert run_beside("killer", home, command, "--object-id", "killer") == 0
    assert run_beside("killer", home, "match", "--until-empty") == 0
    twin = filled(tmp_path / "twin")
    twin.run(command, "--object-id", "killer")
    twin.match()
    assert home.exported() == twin.exported()
    assert answers_of(home) == answers_of(twin)
    home.run("check", "--all")


@pytest.mark.parametrize("deaths", [9, pytest.param(10, marks=pytest.mark.deep)])
def test_nothing_is_set_aside_if_other_objects_fail_too(home: Home, tmp_path: Path, deaths: int) -> None:
    for _ in range(deaths):
        assert run_beside("any", home, "match", "--until-empty") == KILLED
    assert home.run("status")["withdrawals"]["done"] == 0
    home.match()
    assert home.run("status")["withdrawals"]["done"] == 0
    twin = filled(tmp_path / "twin")
    twin.match()
    assert home.exported() == twin.exported() and answers_of(home) == answers_of(twin)
    home.run("check", "--all")


def failing_with(error: BaseException, home: Home, monkeypatch: pytest.MonkeyPatch) -> int:
    """Try the next batch, which fails; return its rows of objects."""
    rows: list[int] = []

    def fail(of_home: State, settings: Any, context: Any, batch: dict[str, Any], *others: Any) -> Any:
        rows.append(Ledger(of_home).object_rows(batch["objects_after"], batch["objects_to"]))
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(micro_batch, "_match_objects", fail)
        with pytest.raises(type(error)):
            micro_batch.match(State(home.path), load_settings(home.path))
    return rows[0]


def test_only_a_lack_of_memory_counts_beside_death(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (OSError(28, "full"), RetryableError("away", "again"), KeyboardInterrupt(), ConnectionError()) * 2:
        assert failing_with(error, home, monkeypatch) == 10
    # The requests are in the index already; so after a death they are done first, without objects.
    assert [failing_with(MemoryError(), home, monkeypatch) for _ in range(2)] == [10, 0]
    home.match()
    home.run("check", "--all")


def _wait_in_a_try(path: Path) -> None:
    home = State(path)
    with failed_tries.counted_try(home, dict(Ledger(home).last_batch or {}), Ledger(home)):
        (path / "ready").touch()
        time.sleep(60)


@pytest.mark.parametrize(("number", "deaths"), [(signal.SIGTERM, 0), (signal.SIGKILL, 1)])
def test_a_stop_by_a_signal_does_not_count(home: Home, number: int, deaths: int) -> None:
    state = State(home.path)
    failed_tries.write_failing(state, failed_tries.Failing())  # so that the first try counts, too
    process = SERVER.Process(target=_wait_in_a_try, args=(home.path,), daemon=True)
    process.start()
    while not (home.path / "ready").exists():
        time.sleep(0.01)
    os.kill(process.pid or 0, number)
    process.join(60)
    assert process.exitcode == -number
    assert failed_tries.count_deaths(state, Ledger(state).last_batch or {}).deaths == deaths
