"""An idle worker in the documents of `balance`: no number, and the reason says why."""

from pststream.pipeline.replan.balance import balance
from pststream.pipeline.replan.measured_loads import check_balance
from pststream.settings import Settings
from pststream.state.home import Home
from tests.unit.reports.commands.homes import add_batch, add_file, add_plan, halves, thing


def test_an_idle_worker_has_no_number(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    add_file(hand_home, "objects", [thing(1, "o1", 1)])
    add_batch(hand_home, cpu_seconds=(3.0, 0.0))
    assert check_balance(hand_home, Settings())["measured_imbalance"] is None
    document = balance(hand_home, Settings(), "local", dry_run=True)
    assert document["measured_imbalance"] is None
    assert document["reason"] == "1 batch measured, 2 are needed to judge the balance"
    add_file(hand_home, "objects", [thing(1, "o2", 2)])
    add_batch(hand_home, cpu_seconds=(3.0, 1.5))
    assert check_balance(hand_home, Settings())["measured_imbalance"] == 4.0
