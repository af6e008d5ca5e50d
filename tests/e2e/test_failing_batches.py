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
from pststream.engine.contract import TaskDied, TasksStalled
from pststream.engine.local_engine import LocalEngine
from pststream.pipeline.batch import failed_tries, micro_batch, route_task
from pststream.pipeline.batch.failed_tries import FAILING, PARTNERS, SUSPECTS, TRIAL, TRYING
from pststream.settings import load_settings
from pststream.state.home import Home as State
from pststream.tables.ledgers import Ledger
from tests import worlds
from tests.command_process import SERVER
from tests.commands import KILLED, Home, new_home
from tests.e2e.test_withdraw import asked, lines, thing
from tests.kill_and_rerun import table_of
from tests.killing_rows import KILLING_AT, run_beside
from tests.oracles.twin import Withdrawal, outcome_of
from tests.oracles.twin_rows import LogFile

pytestmark = pytest.mark.e2e

KNN = {"keywords": "*", "bbox": None, "kind": "knn", "point": {"lon": 1.0, "lat": 1.0}, "k": 3, "window": "1h"}
TERMS = {"keywords": None, "kind": "frequent_terms", "k": 3, "window": "1h", "step": "1h"}
MOST_DEATHS = 20
FILES_OF_TRIES = (FAILING, PARTNERS, SUSPECTS, TRIAL, TRYING)


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
    assert run_until_done("killer", home) > 2
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
    assert not [name for name in FILES_OF_TRIES if (home.path / name).exists()]


def run_until_done(kind: str, home: Home) -> int:
    """Run `match` beside a killer until it ends; return how many processes died."""
    codes: list[int | None] = []
    while not codes or (codes[-1] == KILLED and len(codes) <= MOST_DEATHS):
        codes.append(run_beside(kind, home, "match", "--until-empty"))
    assert codes[-1] == 0, Path(f"{home.path}-err").read_text()[-3000:]
    return len(codes) - 1


QUERIES = ("q0", "q1", "q2", "q3", "q4")


def with_requests(home: Home, path: Path, *left_out: str, **more: Any) -> Path:
    """Ingest five subscriptions, the third of which kills; return the path of their file."""
    names = [name for name in QUERIES if name not in left_out]
    rows = [asked(name, created_at=KILLING_AT) | more if name == "q2" else asked(name, 1) for name in names]
    file = lines(path, *({k: v for k, v in row.items() if v is not None} for row in rows))
    assert home.ingest("requests", [file])["accepted"] == len(names)
    return file


@pytest.mark.promise
@pytest.mark.parametrize(
    "more",
    [{}, *(pytest.param(more, marks=pytest.mark.deep, id=str(more["kind"])) for more in (KNN, TERMS))],
    ids=lambda more: more.get("kind", "range"),
)
def test_a_request_that_kills_its_batch_is_set_aside(home: Home, tmp_path: Path, more: dict[str, Any]) -> None:
    file = with_requests(home, tmp_path / "q.jsonl", **more)
    for _ in range(3):
        assert run_beside("request", home, "match", "--until-empty") == KILLED
    assert "o10" in {one[0] for one in home.exported()}, "objects go on meanwhile"
    assert run_until_done("request", home) > 1
    (reject,) = home.run("rejects")["rejects"]
    assert (Path(reject["file"]), reject["row"], reject["reason"]) == (file, 3, "set_aside")
    assert (reject["kind"], reject["field"], reject["raw"]) == ("requests", "subscription_id", "q2")
    assert home.run("status")["withdrawals"] == {"done": 1, "pending": 0, "set_aside": 1}
    home.run("check", "--all")
    assert "set a request aside" in Path(f"{home.path}-err").read_text()
    twin = filled(tmp_path / "twin")
    with_requests(twin, tmp_path / "others.jsonl", "q2")
    twin.match()
    assert home.exported() == twin.exported() and answers_of(home) == answers_of(twin)
    # The log says so: neither a plan nor a replay nor a lower watermark makes its pieces, and its id is free.
    for words in ("plan", "replay --last 9", "maintain", "withdraw --object-id o10", "match", "check --all"):
        assert run_beside("request", home, *words.split()) == 0, Path(f"{home.path}-err").read_text()[-3000:]
    again = lines(tmp_path / "again.jsonl", asked("q2", 1))
    assert home.ingest("requests", [again])["accepted"] == 1
    home.match()
    home.run("check", "--all")
    files = [("requests", "r"), ("objects", "0"), ("requests", "later"), ("objects", "1"), ("objects", "2")]
    log: list[LogFile | Withdrawal] = [LogFile(kind, tmp_path / f"{name}.jsonl") for kind, name in files]
    log += [LogFile("requests", file), Withdrawal(subscription_ids=frozenset({"q2"}))]
    log += [Withdrawal(frozenset({"o10"})), LogFile("requests", again)]
    assert set(home.exported()) == outcome_of(log, 3600).matches
    assert not [name for name in FILES_OF_TRIES if (home.path / name).exists()]


@pytest.mark.parametrize(
    ("kind", "is_late", "more"),
    [
        ("served", False, {}),
        ("matched", True, {}),
        *(
            pytest.param(*one, marks=pytest.mark.deep)
            for one in (("matched", False, {}), ("served", True, {}), ("matched", False, KNN), ("served", False, KNN))
        ),
    ],
)
def test_a_request_that_kills_once_it_is_in_the_index_is_set_aside(
    home: Home, tmp_path: Path, kind: str, is_late: bool, more: dict[str, Any]
) -> None:
    if is_late:  # the batch with it dies when it is matched with the stored object o10
        home.match()
    file = with_requests(home, tmp_path / "q.jsonl", **more)
    if not is_late:
        home.match()
        assert ("o10" in {one[0] for one in home.exported() if one[2] == "q2"}) == (not more)
    last = lines(tmp_path / "3.jsonl", *(thing(f"p{n}", n) for n in range(10, 16)))
    home.ingest("objects", [last])
    assert run_until_done(kind, home) > 1
    (reject,) = home.run("rejects")["rejects"]
    assert (Path(reject["file"]), reject["row"], reject["reason"], reject["raw"]) == (file, 3, "set_aside", "q2")
    twin = filled(tmp_path / "twin")
    with_requests(twin, tmp_path / "others.jsonl", "q2")
    twin.ingest("objects", [last])
    twin.match()
    assert home.exported() == twin.exported() and answers_of(home) == answers_of(twin)
    # A replay makes the pieces of a subscription with memory again, up to the batch that ends it.
    for words in ("check --all", *(() if more else ("replay --last 2",)), "plan", "maintain", "check --all"):
        assert run_beside(kind, home, *words.split()) == 0, Path(f"{home.path}-err").read_text()[-3000:]
    later = lines(tmp_path / "4.jsonl", thing("p16", 16))
    home.ingest("objects", [later])
    assert run_beside(kind, home, "match", "--until-empty") == 0
    assert {one[2] for one in home.exported() if one[0] == "p16"} == {"s", "later", *QUERIES} - {"q2"}
    assert not [name for name in FILES_OF_TRIES if (home.path / name).exists()]


def test_an_object_that_kills_with_several_subscriptions_is_set_aside_itself(home: Home) -> None:
    assert run_until_done("paired killer", home) > 2
    rejects = [(one["kind"], one["raw"], one["reason"]) for one in home.run("rejects")["rejects"]]
    assert rejects == [("objects", "killer", "set_aside")], Path(f"{home.path}-err").read_text()
    assert {one[2] for one in home.exported()} == {"s", "later"}


STEPS = ("withdraw.named", "ingest.started", "ingest.requests_written", "ingest.done")


@pytest.mark.parametrize("step", [STEPS[1], *(pytest.param(one, marks=pytest.mark.deep) for one in STEPS)])
def test_a_request_is_set_aside_once(home: Home, tmp_path: Path, step: str) -> None:
    file = with_requests(home, tmp_path / "q.jsonl")
    rows = table_of(home, "requests").to_pyarrow_table(filters=[("subscription_id", "=", "q2")])
    key = rows["request_key"][0].as_py()
    suspects = failed_tries.Suspects((key - 1, key), deaths=2, others=1)
    failed_tries.write_suspects(State(home.path), suspects)
    assert home.crash(step, "match", "--until-empty").code == KILLED
    for staged in home.path.glob("staging/*.arrow"):
        staged.unlink()  # as a power cut may do
    file.unlink()
    assert run_until_done("request", home) == 0
    assert [one["reason"] for one in home.run("rejects")["rejects"]] == ["set_aside"]
    home.run("check", "--all")
    assert {one[2] for one in home.exported()} == {"s", "later", *QUERIES} - {"q2"}


@pytest.mark.parametrize("step", [STEPS[0], *(pytest.param(one, marks=pytest.mark.deep) for one in STEPS[1:])])
def test_a_request_in_the_index_is_set_aside_once(home: Home, tmp_path: Path, step: str) -> None:
    with_requests(home, tmp_path / "q.jsonl")
    home.match()
    home.ingest("objects", [lines(tmp_path / "3.jsonl", thing("p", 11))])
    assert home.crash("match.started", "match").code == KILLED
    rows = table_of(home, "requests").to_pyarrow_table(filters=[("subscription_id", "=", "q2")])
    key = rows["request_key"][0].as_py()
    batch: dict[str, Any] = dict(Ledger(State(home.path)).unfinished_batch() or {})
    range = (batch["batch_id"], batch["objects_to"], batch["requests_to"])
    failed_tries.write_failing(State(home.path), failed_tries.Failing(0, range, 2, 0, (key - 1, key), 2, 1))
    assert home.crash(step, "match", "--until-empty").code == KILLED
    assert run_until_done("matched", home) == 0
    assert [one["raw"] for one in home.run("rejects", "--reason", "set_aside")["rejects"]] == ["q2"]
    home.run("check", "--all")
    assert {one[2] for one in home.exported() if one[0] == "p"} == {"s", "later", *QUERIES} - {"q2"}


def test_a_replacement_that_is_set_aside_ends_the_old_subscription(home: Home, tmp_path: Path) -> None:
    home.run("match", "--until-empty")
    file = lines(tmp_path / "q.jsonl", worlds.as_replacement(asked("s", 5)))
    assert home.ingest("requests", [file])["accepted"] == 1
    (row,) = (one for one in table_of(home, "requests").to_pyarrow_table().to_pylist() if one["replaced_key"])
    suspects = failed_tries.Suspects((row["request_key"] - 1, row["request_key"]), deaths=2, others=1)
    failed_tries.write_suspects(State(home.path), suspects)
    home.run("match", "--until-empty")
    assert [one["reason"] for one in home.run("rejects")["rejects"]] == ["set_aside"]
    files = [("requests", "r"), ("objects", "0"), ("requests", "later"), ("objects", "1"), ("objects", "2")]
    log: list[LogFile | Withdrawal] = [LogFile(kind, tmp_path / f"{name}.jsonl") for kind, name in files]
    log += [LogFile("requests", file), Withdrawal(subscription_ids=frozenset({"s"}))]
    assert set(home.exported()) == outcome_of(log, 3600).matches
    assert {one[0] for one in home.exported() if one[2] == "s"} == {"early", "o1", "o2", "o3", "o4"}
    home.run("check", "--all")


@pytest.mark.deep
def test_a_first_plan_whose_sample_dies_is_made_without_the_request(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=3)
    with_requests(home, tmp_path / "q.jsonl")
    home.ingest("objects", [lines(tmp_path / "0.jsonl", thing("o", 12))])
    assert run_until_done("request", home) > 1
    assert [one["raw"] for one in home.run("rejects")["rejects"]] == ["q2"]
    assert {one[2] for one in home.exported()} == {*QUERIES} - {"q2"}
    home.run("check", "--all")


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


@pytest.mark.parametrize(
    ("kind", "deaths"), [("any", 9), ("any request", 9), pytest.param("any", 10, marks=pytest.mark.deep)]
)
def test_nothing_is_set_aside_if_other_rows_fail_too(home: Home, tmp_path: Path, kind: str, deaths: int) -> None:
    for _ in range(deaths):
        assert run_beside(kind, home, "match", "--until-empty") == KILLED
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


@pytest.mark.parametrize("lack", [MemoryError(), TasksStalled(1), TaskDied()], ids=["memory", "time", "spark"])
def test_only_a_lack_of_memory_or_time_counts_beside_death(
    home: Home, monkeypatch: pytest.MonkeyPatch, lack: BaseException
) -> None:
    for error in (OSError(28, "full"), RetryableError("away", "again"), KeyboardInterrupt(), ConnectionError()) * 2:
        assert failing_with(error, home, monkeypatch) == 10
    # The requests are in the index already; so after a death they are done first, without objects.
    assert [failing_with(lack, home, monkeypatch) for _ in range(2)] == [10, 0]
    home.match()
    home.run("check", "--all")


def test_an_object_whose_matching_does_not_end_is_set_aside(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_workers, run_shuffled, started = route_task._find_workers, LocalEngine.run_shuffled, list[bool]()

    def find(objects: pa.RecordBatch, *others: Any) -> Any:
        started.append("killer" in objects.column("object_id").to_pylist())
        return find_workers(objects, *others)

    def run(engine: LocalEngine, *arguments: Any, seconds: float | None = None, **more: Any) -> list[Any]:
        started.clear()
        values = run_shuffled(engine, *arguments, seconds=seconds, **more)
        if any(started):
            assert seconds == failed_tries.TRY_SECONDS
            raise TasksStalled(seconds)
        return values

    with monkeypatch.context() as patch:
        patch.setattr(route_task, "_find_workers", find)
        patch.setattr(LocalEngine, "run_shuffled", run)
        for _ in range(MOST_DEATHS):
            try:
                micro_batch.match(State(home.path), load_settings(home.path))
                break
            except TasksStalled:
                pass
    assert [(one["raw"], one["reason"]) for one in home.run("rejects")["rejects"]] == [("killer", "set_aside")]
    home.run("check", "--all")
    twin = filled(tmp_path / "twin")
    twin.run("withdraw", "--object-id", "killer")
    twin.match()
    assert home.exported() == twin.exported() and answers_of(home) == answers_of(twin)
    assert not [name for name in FILES_OF_TRIES if (home.path / name).exists()]


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
