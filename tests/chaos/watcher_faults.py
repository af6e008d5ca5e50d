"""Inject faults into a running watcher; each counts only if it took effect as planned."""

import contextlib
import datetime as dt
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.chaos.environment import ChaosEnvironment, jvm_of, python_workers, wait_until_matched
from tests.chaos.plan import Episode, Fault
from tests.commands import KILLED, run_here
from tests.watcher_process import SECONDS, Watching

DAY = 86_400
FAILED = "round failed"
"""Log text of the watcher for a failed round."""


def live(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Run a watcher with faults that it survives, then with a fatal one."""
    *faults, end = episode.faults
    with chaos.watching() as watching:
        watching.until(lambda pulse: pulse.get("state") == "idle")
        for fault in faults:
            chaos.injected[fault.kind] += _FAULTS[fault.kind](chaos, watching, random.Random(fault.seed))
            wait_until_matched(chaos, watching)
        chaos.injected[end.kind] += _end(chaos, watching, end)


def crash(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Run a watcher that kills itself at a step, if its files lead to that step."""
    (fault,) = episode.faults
    with chaos.watching(PSTSTREAM_CRASH_AT=fault.detail) as watching:
        for kind, path in chaos.next_files(2):
            watching.land(kind, path)
        deadline = time.monotonic() + SECONDS
        while watching.process.poll() is None and not _is_through(watching):
            assert time.monotonic() < deadline, watching.log[-3000:]
            time.sleep(0.05)
        chaos.injected[fault.kind] += watching.process.poll() == KILLED


def _is_through(watching: Watching) -> bool:
    """Whether everything is matched, and the sinks had a few seconds since."""
    pulse = watching.pulse
    if pulse.get("state") != "idle" or pulse["waiting_files"]:
        return False
    since = dt.datetime.fromisoformat(pulse["since"])
    return (dt.datetime.fromisoformat(pulse["at"]) - since).total_seconds() > 4


def _start_work(chaos: ChaosEnvironment, watching: Watching, rnd: random.Random) -> bool:
    """Let files land, and wait for a random moment of the work on them; return false if the work was already over."""
    chaos.land(watching, rnd)
    deadline = time.monotonic() + 5
    while watching.pulse.get("state") != "working" and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(rnd.uniform(0, 0.7))
    return watching.pulse.get("state") == "working" and watching.process.poll() is None


def _end(chaos: ChaosEnvironment, watching: Watching, fault: Fault) -> bool:
    """Kill the driver, or its JVM, after which the driver must exit."""
    was_working = _start_work(chaos, watching, random.Random(fault.seed))
    if fault.kind == "jvm_killed":
        jvm_of(watching).kill()
        assert watching.process.wait(SECONDS) == 1, watching.log[-3000:]
    else:
        watching.process.kill()
        watching.process.wait()
    return was_working


def _python_worker_killed(chaos: ChaosEnvironment, watching: Watching, rnd: random.Random) -> bool:
    """Kill a worker during a task: stop it first, because tasks of small files take milliseconds, and kill it later.

    It counts if a round failed; otherwise the worker had no task.
    """
    failures = watching.log.count(FAILED)
    _start_work(chaos, watching, rnd)
    workers = sorted(python_workers(watching), key=lambda process: process.pid)
    if not workers:
        return False
    victim = rnd.choice(workers)
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.suspend()
        time.sleep(rnd.uniform(0.2, 1.0))
        victim.kill()
    wait_until_matched(chaos, watching)
    return watching.log.count(FAILED) > failures


def _sink_failing(chaos: ChaosEnvironment, watching: Watching, rnd: random.Random) -> bool:
    """Let the sink be down, accept messages without answering, both, or be slower than its timeout."""
    for name, value in rnd.choice(
        ({"status": 503}, {"losing": 1.0}, {"failing": 0.5, "losing": 1.0}, {"seconds": 3.0})
    ).items():
        setattr(chaos.receiver, name, value)
    before = chaos.receiver.requests
    chaos.land(watching, rnd)
    deadline = time.monotonic() + 6
    while chaos.receiver.requests == before and time.monotonic() < deadline:
        time.sleep(0.05)
    wait_until_matched(chaos, watching)
    (
        chaos.receiver.status,
        chaos.receiver.failing,
        chaos.receiver.losing,
        chaos.receiver.seconds,
    ) = 200, 0.0, 0.0, 0.0
    return chaos.receiver.requests > before


def _second_runner(chaos: ChaosEnvironment, watching: Watching, rnd: random.Random) -> bool:
    """Start a second runner, which must be refused."""
    chaos.land(watching, rnd)
    refused = run_here("run", chaos.landing, "--home", chaos.home.path, "--json")
    assert (refused.code, refused.json["kind"]) == (1, "RunnerBusy"), refused.err
    return True


def _clock_jumped(chaos: ChaosEnvironment, watching: Watching, rnd: random.Random) -> bool:
    """Set the clock forward or back during the work, and reset it afterwards."""
    if not chaos.clock.settable:
        return False
    shift = rnd.choice((-3 * DAY, -DAY, -3600, -90, 90, 3600, 40 * DAY, 400 * DAY))
    _start_work(chaos, watching, rnd)
    chaos.clock.set(shift)
    try:
        wait_until_matched(chaos, watching)
        time.sleep(1.2)  # until the next heartbeat
        heartbeat_time = dt.datetime.fromisoformat(watching.pulse["at"]).timestamp()
    finally:
        chaos.clock.set(0)
    return abs(heartbeat_time - time.time() - shift) < 60


def _disk_full(chaos: ChaosEnvironment, watching: Watching, rnd: random.Random) -> bool:
    """Fill the disk for a while; it counts if a round failed."""
    failures = watching.log.count(FAILED)
    process = psutil.Process(watching.process.pid)
    chaos.disk.fill(process, rnd)
    try:
        chaos.land(watching, rnd)
        deadline = time.monotonic() + 8
        while watching.log.count(FAILED) == failures and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        chaos.disk.clear(process)
    return watching.log.count(FAILED) > failures


def _cache_torn(chaos: ChaosEnvironment, watching: Watching, rnd: random.Random) -> bool:
    """Cut the end or the beginning of cached segments and states of answers, which new Python workers then read."""
    cache = chaos.home.path / "node-cache"
    cached = [*cache.glob("segments-*/*"), *cache.glob("answers/*/*")]
    torn = {path: _tear(path, rnd) for path in sorted(cached) if path.is_file()}
    for process in python_workers(watching):
        process.kill()
    chaos.land(watching, rnd)
    wait_until_matched(chaos, watching)
    return any(path.exists() and path.read_bytes() != bytes_ for path, bytes_ in torn.items())


def _tear(path: Path, rnd: random.Random) -> bytes:
    """Replace a file by a torn one (processes that have mapped the old file keep it); return its bytes."""
    whole = path.read_bytes()
    low = rnd.randint(0, len(whole) // 2)
    torn = rnd.choice((b"", whole[:low], whole[:16], bytes(64) + whole[64:], rnd.randbytes(16) + whole[16:]))
    writing = path.with_name(".writing-torn")
    writing.write_bytes(torn)
    os.replace(writing, path)
    return torn


_FAULTS: dict[str, Callable[[ChaosEnvironment, Watching, random.Random], bool]] = {
    "python_worker_killed": _python_worker_killed,
    "sink_failing": _sink_failing,
    "second_runner": _second_runner,
    "clock_jumped": _clock_jumped,
    "disk_full": _disk_full,
    "cache_torn": _cache_torn,
}
