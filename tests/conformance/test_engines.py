"""Every engine keeps the contract of engines: the same values, rows and errors."""

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from pststream.base.errors import RetryableError
from pststream.engine import auto_engine
from pststream.engine.contract import Engine, ReceivedRows, SentRows, Stage, TaskDied, TasksStalled, collect_places
from pststream.engine.local_engine import LocalEngine
from pststream.engine.running_engine import ENGINES, get_engine
from pststream.engine.spark_engine import MAX_CLOSURE_BYTES, SparkEngine, _load
from pststream.engine.spark_session import EngineSession
from pststream.settings import Settings
from pststream.state.home import Home

pytestmark = pytest.mark.spark


@pytest.fixture(
    params=["local", *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(ENGINES.keys() - {"local"}))]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    return get_engine(Settings(engine=request.param, spark_master="local[2]"))


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def remainders(number: int) -> Iterator[SentRows]:
    """Send every number below `number` to the part of its remainder by 7, tagged by its parity, and one empty batch."""
    for value in range(number):
        yield value % 7, value % 2, rows(value)
    yield 6, 0, rows()


def numbers_by_tag(part: int, received: ReceivedRows) -> tuple[int, list[tuple[int, int]]]:
    return part, sorted((tag, value) for tag, batch in received for value in batch.column("number").to_pylist())


@pytest.mark.parametrize("count", [0, 1, 40])
def test_each_task_runs_and_returns_its_value(engine: Engine, count: int) -> None:
    assert engine.parallelism >= 1
    places = collect_places()
    assert sorted(engine.run_tasks(range(count), lambda number: number * number)) == [n * n for n in range(count)]
    is_small = isinstance(engine, auto_engine.AutoEngine) and count <= auto_engine.MAX_LOCAL_WEIGHT
    place = "threads" if is_small or isinstance(engine, LocalEngine) else "Spark local[2]"
    assert places == ({place} if count else set())


@pytest.mark.parametrize(("tasks", "parts"), [([], 7), ([0], 100), ([20, 3, 11], 100), (list(range(20)), 7)])
def test_each_part_receives_the_rows_that_were_sent_to_it(engine: Engine, tasks: list[int], parts: int) -> None:
    expected: dict[int, list[tuple[int, int]]] = {}
    for task in tasks:
        for value in range(task):
            expected.setdefault(value % 7, []).append((value % 2, value))
    received = engine.run_shuffled(tasks, remainders, [Stage(parts, numbers_by_tag)])
    assert dict(received) == {part: sorted(pairs) for part, pairs in expected.items()}
    assert len(received) == len(expected)


def wait_at_part_3(part: int, received: ReceivedRows) -> None:
    time.sleep(600 if part == 3 else 0)


def fail_at_3(number: int) -> int:
    if number == 3:
        raise ValueError("task number 3 fails")
    return number


def test_the_error_of_a_task_is_raised(engine: Engine) -> None:
    with pytest.raises(Exception, match="task number 3 fails"):
        engine.run_tasks(range(5), fail_at_3)


def end_process(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.slow
def test_the_death_of_a_task_on_spark_is_told_and_survived() -> None:
    engine = get_engine(Settings(engine="spark", spark_master="local[2]"))
    with pytest.raises(TaskDied):
        engine.run_tasks(range(3), end_process)
    with pytest.raises(TaskDied):
        engine.run_shuffled([20], remainders, [Stage(7, lambda part, _: end_process(part))])
    assert sorted(engine.run_tasks(range(3), int)) == [0, 1, 2]


def test_tasks_that_do_not_end_are_not_waited_for(engine: Engine) -> None:
    engine.run_tasks([0.0] * 16, time.sleep)  # starts the workers, those of Spark too
    began = time.monotonic()
    # All of them take longer than the limit on two cores; one may take seven times as long on a busy machine.
    assert sorted(engine.run_tasks([0.8] * 16, lambda one: time.sleep(one) or one, seconds=6)) == [0.8] * 16
    with pytest.raises(TasksStalled):
        engine.run_tasks([0.1, 600.0, 0.1], time.sleep, seconds=2)
    stages = [Stage(7, numbers_by_tag)]
    assert len(engine.run_shuffled([20], remainders, stages, seconds=60)) == 7
    with pytest.raises(TasksStalled):
        engine.run_shuffled([20], remainders, [Stage(7, wait_at_part_3)], seconds=2)
    assert engine.run_tasks([1], lambda number: number) == [1]
    assert time.monotonic() - began < 300


def add_one(part: int, received: ReceivedRows) -> Iterator[SentRows]:
    """Send each number, plus one, to the part of its remainder by 5, tagged by the part that sends it."""
    for _, batch in received:
        for value in batch.column("number").to_pylist():
            yield (value + 1) % 5, part, rows(value + 1)


def send_nothing(part: int, received: ReceivedRows) -> Iterator[SentRows]:
    yield from ((0, 0, rows()) for _ in received)


def fail_at_part_3(part: int, received: ReceivedRows) -> list[SentRows]:
    return [(0, 0, rows(fail_at_3(part)))]


def yield_and_fail_at_part_3(part: int, received: ReceivedRows) -> Iterator[SentRows]:
    yield 0, 0, rows(part)
    fail_at_3(part)


def fail_at_last(part: int, received: ReceivedRows) -> int:
    raise ValueError("task number 3 fails")


def chained(tasks: list[int]) -> dict[int, list[tuple[int, int]]]:
    """The values of `numbers_by_tag` after `remainders` and `add_one`."""
    expected: dict[int, list[tuple[int, int]]] = {}
    for task in tasks:
        for value in range(task):
            expected.setdefault((value + 1) % 5, []).append((value % 7, value + 1))
    return {part: sorted(pairs) for part, pairs in expected.items()}


@pytest.mark.parametrize(
    ("tasks", "parts"), [([], (7, 5)), ([20, 3, 11], (100, 5)), (list(range(20)), (7, 100)), ([3] * 70, (7, 5))]
)
def test_rows_go_through_two_shuffles(engine: Engine, tasks: list[int], parts: tuple[int, int]) -> None:
    received = engine.run_shuffled(tasks, remainders, [Stage(parts[0], add_one), Stage(parts[1], numbers_by_tag)])
    assert dict(received) == chained(tasks)
    assert len(received) == len(chained(tasks))


def test_rows_go_through_three_shuffles(engine: Engine) -> None:
    """The third shuffle sends on what `add_one` of the second has sent."""
    stages = [Stage(7, add_one), Stage(5, add_one), Stage(5, numbers_by_tag)]
    received = dict(engine.run_shuffled([12, 4], remainders, stages))
    numbers = sorted(value for pairs in received.values() for _, value in pairs)
    assert numbers == sorted(value + 2 for task in (12, 4) for value in range(task))
    assert all(value % 5 == part and (value - 1) % 5 == tag for part, pairs in received.items() for tag, value in pairs)


def test_the_order_of_tasks_does_not_matter(engine: Engine) -> None:
    stages = [Stage(7, add_one), Stage(5, numbers_by_tag)]
    several = [dict(engine.run_shuffled(tasks, remainders, stages)) for tasks in ([9, 30, 2], [2, 9, 30], [30, 2, 9])]
    assert several == [chained([9, 30, 2])] * 3


def test_a_stage_that_sends_nothing_ends_the_chain(engine: Engine) -> None:
    assert engine.run_shuffled([20], remainders, [Stage(7, send_nothing), Stage(5, numbers_by_tag)]) == []
    assert (
        engine.run_shuffled([20], remainders, [Stage(7, send_nothing), Stage(5, add_one), Stage(5, fail_at_last)]) == []
    )


def test_a_stage_may_leave_rows_unread_and_return_a_list(engine: Engine) -> None:
    def send_the_part(part: int, received: ReceivedRows) -> list[SentRows]:
        next(received)
        return [(0, part, rows(part))]

    stages = [Stage(7, send_the_part), Stage(1, numbers_by_tag)]
    assert engine.run_shuffled([20, 20], remainders, stages) == [(0, [(part, part) for part in range(7)])]


def test_wide_and_many_batches_arrive_whole(engine: Engine) -> None:
    def send(task: int) -> Iterator[SentRows]:
        for number in range(30):
            yield number % 3, task, rows(*range(number * 1000, number * 1000 + 1000))

    def total(part: int, received: ReceivedRows) -> tuple[int, int]:
        values = [value for _, batch in received for value in batch.column("number").to_pylist()]
        return len(values), sum(values)

    received = engine.run_shuffled([0, 1, 2, 3], send, [Stage(3, total)])
    assert sum(count for count, _ in received) == 4 * 30_000
    assert sum(value for _, value in received) == 4 * sum(range(30_000))


@pytest.mark.parametrize(
    "stages",
    [
        [Stage(7, fail_at_part_3)],
        [Stage(7, fail_at_part_3), Stage(1, numbers_by_tag)],
        [Stage(7, yield_and_fail_at_part_3), Stage(1, numbers_by_tag)],
        [Stage(7, add_one), Stage(5, fail_at_part_3), Stage(1, numbers_by_tag)],
        [Stage(7, add_one), Stage(5, fail_at_last)],
    ],
    ids=["only", "first", "first, while it sends", "second", "last"],
)
def test_the_error_of_a_stage_is_raised(engine: Engine, stages: list[Stage]) -> None:
    with pytest.raises(Exception, match="task number 3 fails"):
        engine.run_shuffled([20], remainders, stages)


def test_each_stage_is_reported_until_all_of_its_tasks_have_ended(engine: Engine) -> None:
    reported: list[tuple[int, float]] = []
    engine.run_tasks([5, 6, 7], lambda number: number, lambda *end: reported.append(end))
    assert {stage for stage, _ in reported} == {0} and reported == sorted(reported) and reported[-1] == (0, 1.0)
    reported.clear()
    stages = [Stage(100, add_one), Stage(5, numbers_by_tag)]
    engine.run_shuffled([2, 4], remainders, stages, lambda *end: reported.append(end))
    of_stages = {stage: [share for one, share in reported if one == stage] for stage in range(3)}
    assert len(of_stages) == len({stage for stage, _ in reported})
    assert all(shares == sorted(shares) and shares[-1] == 1.0 for shares in of_stages.values())


def test_tasks_are_reported_while_others_run(engine: Engine, tmp_path: Path) -> None:
    """The last task waits for a file that is written when the first has been reported."""
    signal = tmp_path / "reported"

    def wait(number: int) -> bool:
        until = time.monotonic() + 300
        while number and not signal.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return not number or signal.exists()

    assert all(engine.run_tasks([0, 1], wait, lambda *end: signal.touch()))


def test_the_error_of_a_sender_is_raised(engine: Engine) -> None:
    def send(task: int) -> Iterator[SentRows]:
        yield 0, 0, rows(task)
        fail_at_3(task)

    with pytest.raises(Exception, match="task number 3 fails"):
        engine.run_shuffled(range(5), send, [Stage(1, numbers_by_tag)])


def test_local_rows_are_freed_as_parts_read_them() -> None:
    """While a stage runs, the rows that it has read exist no longer, in no stage."""
    before = pa.total_allocated_bytes()
    size = 8 * 100_000

    def send(task: int) -> Iterator[SentRows]:
        for part in range(10):
            yield part, 0, rows(*range(100_000))

    def pass_on(part: int, received: ReceivedRows) -> Iterator[SentRows]:
        for _, batch in received:
            del batch
        yield 0, 0, rows(part)

    def allocated(part: int, received: ReceivedRows) -> int:
        return pa.total_allocated_bytes() - before

    assert LocalEngine().run_shuffled([0], send, [Stage(10, pass_on), Stage(1, allocated)])[0] < size


@dataclass(frozen=True)
class WeightedTask:
    weight: float


@pytest.mark.slow
def test_auto_runs_little_work_in_this_process_and_much_on_spark() -> None:
    engine = get_engine(Settings(engine="auto", spark_master="local[2]"))
    here, most = {os.getpid()}, int(auto_engine.MAX_LOCAL_WEIGHT)
    light = WeightedTask(most / 128)
    assert set(engine.run_tasks(range(most), lambda _: os.getpid())) == here
    assert set(engine.run_tasks([light] * 128, lambda _: os.getpid())) == here
    for tasks in (range(most + 1), [light] * 129, [WeightedTask(most + 0.1)], [WeightedTask(0.0)] * 64 * (most + 1)):
        assert os.getpid() not in engine.run_tasks(tasks, lambda _: os.getpid())


def test_auto_means_spark_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr("pststream.engine.running_engine.get_engine_session", started.append)
    get_engine(Settings(engine="auto", spark_master="spark://host:7077"))
    assert started


def test_local_tasks_run_side_by_side_and_none_starts_after_a_failure() -> None:
    engine = LocalEngine()
    ran: list[int] = []
    first = threading.Event()

    def run(number: int) -> None:
        ran.append(number)
        if number == 0:
            first.set()
            raise ValueError("the first fails")
        first.wait(10)

    with pytest.raises(ValueError, match="the first fails"):
        engine.run_tasks(range(1000), run)
    assert len(ran) < 1000


def _read_scratch(folder: str, data: bytes, task: int) -> tuple[int, int, int]:
    return task, len(data), len(list(Path(folder).rglob("*")))


@pytest.mark.slow
def test_functions_with_much_data_wait_in_the_home(tmp_path: Path) -> None:
    """What travels with a task is small; the file is gone when the tasks have ended."""
    home = Home(tmp_path)
    engine = get_engine(Settings(engine="spark", spark_master="local[2]"), home)
    function = partial(_read_scratch, f"{tmp_path}/scratch", bytes(MAX_CLOSURE_BYTES))
    assert sorted(engine.run_tasks(range(5), function)) == [(task, MAX_CLOSURE_BYTES, 2) for task in range(5)]
    small = partial(_read_scratch, f"{tmp_path}/scratch", b"")
    assert engine.run_tasks([7], small) == [(7, 0, 0)]


def test_functions_that_another_has_changed_are_not_loaded(tmp_path: Path) -> None:
    engine = SparkEngine(EngineSession("", False, 2), Home(tmp_path))
    with engine.sent([partial(_read_scratch, f"{tmp_path}/none", bytes(MAX_CLOSURE_BYTES))]) as sent:
        assert _load(sent)[0](3) == (3, MAX_CLOSURE_BYTES, 0)
        _load.cache_clear()
        Path(str(sent)).write_bytes(pickle.dumps((print,)))
        with pytest.raises(RetryableError, match="another program has changed"):
            _load(sent)
