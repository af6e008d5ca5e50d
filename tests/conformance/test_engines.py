"""Every engine keeps the contract of engines: the same values, rows and errors."""

import os
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pststream.pipeline.engine import auto_engine
from pststream.pipeline.engine.contract import Engine, SentRows
from pststream.pipeline.engine.local_engine import LocalEngine
from pststream.pipeline.engine.running_engine import ENGINES, get_engine
from pststream.settings import Settings

pytestmark = pytest.mark.spark


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    return get_engine(Settings(engine=request.param, spark_master="local[2]"))


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def remainders(number: int) -> Iterator[SentRows]:
    """Send every number below `number` to the part of its remainder by 7, tagged by its parity, and one empty batch."""
    for value in range(number):
        yield value % 7, value % 2, rows(value)
    yield 6, 0, rows()


def numbers_by_tag(part: int, received: Iterator[tuple[int, pa.RecordBatch]]) -> tuple[int, list[tuple[int, int]]]:
    return part, sorted((tag, value) for tag, batch in received for value in batch.column("number").to_pylist())


@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_each_task_runs_and_returns_its_value(engine: Engine, count: int) -> None:
    assert engine.parallelism >= 1
    assert sorted(engine.run_tasks(range(count), lambda number: number * number)) == [n * n for n in range(count)]


@pytest.mark.parametrize("parts", [7, 100])
@pytest.mark.parametrize("tasks", [[], [0], [5], [20, 3, 11], list(range(20))])
def test_each_part_receives_the_rows_that_were_sent_to_it(engine: Engine, tasks: list[int], parts: int) -> None:
    expected: dict[int, list[tuple[int, int]]] = {}
    for task in tasks:
        for value in range(task):
            expected.setdefault(value % 7, []).append((value % 2, value))
    received = engine.run_shuffled(tasks, remainders, parts, numbers_by_tag)
    assert dict(received) == {part: sorted(pairs) for part, pairs in expected.items()}
    assert len(received) == len(expected)


def fail_at_3(number: int) -> int:
    if number == 3:
        raise ValueError("task number 3 fails")
    return number


def test_the_error_of_a_task_is_raised(engine: Engine) -> None:
    with pytest.raises(Exception, match="task number 3 fails"):
        engine.run_tasks(range(5), fail_at_3)


def test_the_error_of_a_receiver_is_raised(engine: Engine) -> None:
    with pytest.raises(Exception, match="task number 3 fails"):
        engine.run_shuffled([20], remainders, 7, lambda part, received: fail_at_3(part))


def test_auto_runs_few_tasks_in_this_process_and_many_on_spark() -> None:
    engine = get_engine(Settings(engine="auto", spark_master="local[2]"))
    assert set(engine.run_tasks(range(auto_engine.MAX_LOCAL_TASKS), lambda _: os.getpid())) == {os.getpid()}
    assert os.getpid() not in engine.run_tasks(range(auto_engine.MAX_LOCAL_TASKS + 1), lambda _: os.getpid())


def test_auto_means_spark_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr("pststream.pipeline.engine.running_engine.get_context", started.append)
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
