"""An idle Python worker ends quietly when Spark closes its socket, and runs a task that comes."""

import os
import socket

import pytest

from pststream.engine import worker_daemon


def test_a_worker_without_a_task_ends(capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        ours.close()
        worker_daemon.wait_and_run_task(theirs, True)
        os._exit(1)  # a task was run
    theirs.close()
    ours.close()
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert capfd.readouterr().err == ""


def test_a_worker_runs_the_task_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(worker_daemon, "_run_task", lambda sock, authenticated: len(sock.recv(8)))
    ours.sendall(b"task")
    assert worker_daemon.wait_and_run_task(theirs, True) == 4
