"""The imbalance of workers: as a number, in JSON and as text."""

from pststream.plans.imbalance import MAX_IMBALANCE, finite_imbalance, imbalance_of, imbalance_text, read_imbalance


def test_the_greatest_load_over_the_least() -> None:
    assert imbalance_of([2.0, 3.0, 2.0]) == 1.5
    assert imbalance_of([]) == imbalance_of([0.0, 0.0]) == 1.0


def test_an_idle_worker() -> None:
    idle = imbalance_of([3.0, 0.0])
    assert idle == imbalance_of([1.0, 1e-300]) == MAX_IMBALANCE
    assert finite_imbalance(idle) is finite_imbalance(idle, None) is None
    assert read_imbalance(finite_imbalance(idle)) == idle
    assert imbalance_text(idle) == imbalance_text(None) == "infinite (idle worker)"


def test_a_number() -> None:
    assert finite_imbalance(4 / 3) == 1.3333
    assert finite_imbalance(4 / 3, 2) == 1.33
    assert read_imbalance(finite_imbalance(4 / 3, None)) == 4 / 3
    assert imbalance_text(4 / 3) == "1.33"
