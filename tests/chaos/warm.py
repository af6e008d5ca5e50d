"""Faults of a watcher that goes on, or that dies of one. Each counts only if it met the watcher as it was meant to."""

import contextlib
import datetime as dt
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.chaos.place import Place, jvm_of, python_workers, settle
from tests.chaos.plan import Episode, Fault
from tests.commands import KILLED, run_here
from tests.watching import SECONDS, Watching

DAY = 86_400
FAILED = "round failed"
"""What a watcher says of one."""


def live(place: Place, episode: Episode) -> None:
    """The life of a watcher: faults that it outlives, then one that it does not."""
    *faults, end = episode.faults
    with place.watching() as watching:
        watching.until(lambda pulse: pulse.get("state") == "idle")
        for fault in faults:
            place.injected[fault.kind] += _FAULTS[fault.kind](place, watching, random.Random(fault.seed))
            settle(place, watching)
        place.injected[end.kind] += _end(place, watching, end)


def crash(place: Place, episode: Episode) -> None:
    """A watcher that kills itself at a step, if files make it come there."""
    (fault,) = episode.faults
    with place.watching(PSTSTREAM_CRASH_AT=fault.detail) as watching:
        for kind, path in place.next_files(2):
            watching.land(kind, path)
        deadline = time.monotonic() + SECONDS
        while watching.process.poll() is None and not _is_through(watching):
            assert time.monotonic() < deadline, watching.log[-3000:]
            time.sleep(0.05)
        place.injected[fault.kind] += watching.process.poll() == KILLED


def _is_through(watching: Watching) -> bool:
    """Whether all is matched, and the sinks had some seconds since."""
    pulse = watching.pulse
    if pulse.get("state") != "idle" or pulse["waiting_files"]:
        return False
    since = dt.datetime.fromisoformat(pulse["since"])
    return (dt.datetime.fromisoformat(pulse["at"]) - since).total_seconds() > 4


def _at_work(place: Place, watching: Watching, rnd: random.Random) -> bool:
    """Let files land, and wait for some moment of the work on them; false if it was over before."""
    place.land(watching, rnd)
    deadline = time.monotonic() + 5
    while watching.pulse.get("state") != "working" and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(rnd.uniform(0, 0.7))
    return watching.pulse.get("state") == "working" and watching.process.poll() is None


def _end(place: Place, watching: Watching, fault: Fault) -> bool:
    """Kill the driver, or the JVM under it, which the driver has to end with."""
    at_work = _at_work(place, watching, random.Random(fault.seed))
    if fault.kind == "jvm_killed":
        jvm_of(watching).kill()
        assert watching.process.wait(SECONDS) == 1, watching.log[-3000:]
    else:
        watching.process.kill()
        watching.process.wait()
    return at_work


def _python_worker_killed(place: Place, watching: Watching, rnd: random.Random) -> bool:
    """In the middle of a task: stopped first, as tasks of small files take milliseconds, and killed some time later.

    It counts if a round failed of it; else it had no task.
    """
    failures = watching.log.count(FAILED)
    _at_work(place, watching, rnd)
    workers = sorted(python_workers(watching), key=lambda process: process.pid)
    if not workers:
        return False
    victim = rnd.choice(workers)
    with contextlib.suppress(psutil.NoSuchProcess):
        victim.suspend()
        time.sleep(rnd.uniform(0.2, 1.0))
        victim.kill()
    settle(place, watching)
    return watching.log.count(FAILED) > failures


def _sink_failing(place: Place, watching: Watching, rnd: random.Random) -> bool:
    """It is down, takes messages and does not say so, both, or is slower than its time."""
    for name, value in rnd.choice(
        ({"status": 503}, {"losing": 1.0}, {"failing": 0.5, "losing": 1.0}, {"seconds": 3.0})
    ).items():
        setattr(place.receiver, name, value)
    before = place.receiver.requests
    place.land(watching, rnd)
    deadline = time.monotonic() + 6
    while place.receiver.requests == before and time.monotonic() < deadline:
        time.sleep(0.05)
    settle(place, watching)
    place.receiver.status, place.receiver.failing, place.receiver.losing, place.receiver.seconds = 200, 0.0, 0.0, 0.0
    return place.receiver.requests > before


def _second_runner(place: Place, watching: Watching, rnd: random.Random) -> bool:
    """It is refused, and told who is at work."""
    place.land(watching, rnd)
    refused = run_here("run", place.landing, "--home", place.home.path, "--json")
    assert (refused.code, refused.json["kind"]) == (1, "RunnerBusy"), refused.err
    return True


def _clock_jumped(place: Place, watching: Watching, rnd: random.Random) -> bool:
    """Ahead or back, while work goes on, and back again when it is done."""
    if not place.clock.settable:
        return False
    shift = rnd.choice((-3 * DAY, -DAY, -3600, -90, 90, 3600, 40 * DAY, 400 * DAY))
    _at_work(place, watching, rnd)
    place.clock.set(shift)
    try:
        settle(place, watching)
        time.sleep(1.2)  # until the next heartbeat
        heartbeat_time = dt.datetime.fromisoformat(watching.pulse["at"]).timestamp()
    finally:
        place.clock.set(0)
    return abs(heartbeat_time - time.time() - shift) < 60


def _disk_full(place: Place, watching: Watching, rnd: random.Random) -> bool:
    """No room for a while; it counts if a round failed of it."""
    failures = watching.log.count(FAILED)
    process = psutil.Process(watching.process.pid)
    place.disk.fill(process, rnd)
    try:
        place.land(watching, rnd)
        deadline = time.monotonic() + 8
        while watching.log.count(FAILED) == failures and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        place.disk.clear(process)
    return watching.log.count(FAILED) > failures


def _cache_torn(place: Place, watching: Watching, rnd: random.Random) -> bool:
    """Entries of the cache of segments lose their end or their beginning; new Python workers meet them."""
    torn = {path: _tear(path, rnd) for path in sorted((place.home.path / "node-cache").glob("segments-*/*"))}
    for process in python_workers(watching):
        process.kill()
    place.land(watching, rnd)
    settle(place, watching)
    return any(path.exists() and path.read_bytes() != bytes_ for path, bytes_ in torn.items())


def _tear(path: Path, rnd: random.Random) -> bytes:
    """Put a torn file in the place of another one, which those who have mapped it keep; its bytes."""
    whole = path.read_bytes()
    low = rnd.randint(0, len(whole) // 2)
    torn = rnd.choice((b"", whole[:low], whole[:16], bytes(64) + whole[64:], rnd.randbytes(16) + whole[16:]))
    writing = path.with_name(".writing-torn")
    writing.write_bytes(torn)
    os.replace(writing, path)
    return torn


_FAULTS: dict[str, Callable[[Place, Watching, random.Random], bool]] = {
    "python_worker_killed": _python_worker_killed,
    "sink_failing": _sink_failing,
    "second_runner": _second_runner,
    "clock_jumped": _clock_jumped,
    "disk_full": _disk_full,
    "cache_torn": _cache_torn,
}
