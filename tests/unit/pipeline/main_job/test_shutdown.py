"""A step may end itself when a signal asks; one that does not is abandoned."""

import os
import signal
import time

import pytest

from pststream.pipeline.main_job import shutdown
from pststream.pipeline.main_job.shutdown import Abandoned, Ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_step_ends_itself(number: int) -> None:
    before = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)]
    ended: list[int] = []
    with Ending(lambda: ended.append(1)) as asking:
        assert not asking.asked
        os.kill(os.getpid(), number)
        assert asking.asked and not asking.abandoned
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)] == before
    assert ended == []


def test_a_step_that_takes_too_long_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "STOP_SECONDS", 0.05)
    ended: list[int] = []
    with Ending(lambda: ended.append(1)) as asking, pytest.raises(Abandoned):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)
    assert asking.abandoned and ended == [1]


def test_a_second_signal_abandons_at_once() -> None:
    with Ending(lambda: None) as asking, pytest.raises(Abandoned):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
    assert asking.abandoned


def test_nothing_is_abandoned_when_the_work_is_over() -> None:
    ended: list[int] = []
    with Ending(lambda: ended.append(1)) as asking:
        os.kill(os.getpid(), signal.SIGTERM)
        asking.over()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
    assert asking.asked and not asking.abandoned and ended == []
