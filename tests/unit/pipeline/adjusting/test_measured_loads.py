"""Measured loads: seconds of each worker in the last batches."""

import numpy as np
import pytest

from pststream.pipeline.replan.measured_loads import MeasuredLoads, measure_loads
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import add_batch, add_file, add_plan, deletion, halves, insertion, thing


def test_the_last_batches(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    assert measure_loads(hand_home, 1, 3).batches == 0
    first = add_file(hand_home, "requests", [insertion(1, "a"), insertion(2, "b")])
    add_file(hand_home, "objects", [thing(1, "o1", 1)])
    add_batch(hand_home, cpu_seconds=(1.0, 3.0))
    add_file(hand_home, "requests", [insertion(1, "c", 5), deletion(2, "a", 6, log_key(first, 1))])
    seen = add_file(hand_home, "objects", [thing(1, "o2", 7)])
    add_batch(hand_home, cpu_seconds=(2.0, 2.0))

    last = measure_loads(hand_home, 1, 1)
    assert last.batches == 1
    assert last.imbalance == pytest.approx(1.0) and last.first_key < log_key(seen, 1)
    both = measure_loads(hand_home, 1, 2)
    assert both.batches == 2
    assert both.imbalance == pytest.approx(5 / 3)
    assert not both.violates(1.1), "the later half is even"


def loads_of(*batches: tuple[float, float], tuples: list[int] | None = None) -> MeasuredLoads:
    return MeasuredLoads(np.array(batches), np.array(tuples or [1] * len(batches)), -1)


def test_work_that_happens_once_is_not_typical() -> None:
    measured = loads_of((1.0, 2.0), (9.0, 2.0), (1.5, 2.5))
    assert measured.typical == pytest.approx([6.75, 11.25])
    assert measured.imbalance == pytest.approx(11.5 / 6.5)


def test_batches_of_requests_alone_do_not_count() -> None:
    measured = loads_of(*[(0.0, 0.0)] * 5, (6.0, 2.0), (3.0, 1.0))
    assert measured.typical == pytest.approx([9.0, 3.0])
    assert loads_of((0.0, 0.0)).typical.tolist() == [0.0, 0.0]


def test_a_worker_that_is_busy_in_the_large_batches_is_the_busy_one() -> None:
    batches = [(10.0, 1.0), (0.0, 1.0), (0.0, 1.0), (10.0, 1.0), (0.0, 1.0)]
    typical = loads_of(*batches, tuples=[100, 5, 5, 100, 5]).typical
    assert typical[0] > 5 * typical[1] and typical.sum() == pytest.approx(25.0)
