"""A signal lets the running step end; a step that takes too long is abandoned."""

import os
import signal
import time

import pytest

from pststream.pipeline.main_job import watch
from pststream.pipeline.main_job.watch import Abandoned, GracefulShutdown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_requests_a_shutdown(number: int) -> None:
    before = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)]
    ended: list[int] = []
    with GracefulShutdown(lambda: ended.append(1)) as shutdown:
        assert not shutdown.requested
        os.kill(os.getpid(), number)
        assert shutdown.requested and not shutdown.abandoned
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)] == before
    assert ended == []


def test_a_step_that_takes_too_long_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "STOP_SECONDS", 0.05)
    ended: list[int] = []
    with GracefulShutdown(lambda: ended.append(1)) as shutdown, pytest.raises(Abandoned):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)
    assert shutdown.abandoned and ended == [1]


def test_a_second_signal_abandons_at_once() -> None:
    with GracefulShutdown(lambda: None) as shutdown, pytest.raises(Abandoned):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
    assert shutdown.abandoned


def test_nothing_is_abandoned_after_the_last_step() -> None:
    ended: list[int] = []
    with GracefulShutdown(lambda: ended.append(1)) as shutdown:
        os.kill(os.getpid(), signal.SIGTERM)
        shutdown.finish()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
    assert shutdown.requested and not shutdown.abandoned and ended == []
