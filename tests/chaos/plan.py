"""Plan a chaos run: the faults and their order, a function of the seed and of their number alone."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

STEPS = (
    *("ingest.parsed", "gate.checked", "ingest.started", "ingest.objects_written", "ingest.requests_written"),
    *("ingest.rejects_written", "ingest.done", "match.started", "match.thresholds_indexed", "match.indexed"),
    *("match.answered", "match.matched", "match.loads_written", "match.reported", "match.done"),
    *("deliver.sent", "deliver.saved"),
)
"""Steps at which a watcher kills itself (pststream/state/crash_points.py)."""

COMMAND_STEPS = (
    *("plan.units_written", "plan.indexed", "plan.done", "balance.indexed", "balance.units_written", "balance.done"),
    *("backup.read", "backup.copied", "fetch.copied"),
    *("maintain.snapshot_written", "maintain.snapshot", "maintain.state_dropped"),
    *("statistics.counted", "statistics.committed", "statistics.done"),
)
"""Steps at which other commands kill themselves."""

WITHDRAW_STEPS = ("withdraw.restored", "withdraw.named", "withdraw.done")
"""Steps at which `withdraw` kills itself."""

ERASE_STEPS = ("erase.started", "erase.discarded", "erase.recorded", "erase.removed", "erase.files_deleted")
"""Steps at which `erase` kills itself."""

WATCHER_FAULTS = {
    "python_worker_killed": 8,
    "sink_failing": 3,
    "second_runner": 2,
    "clock_jumped": 2,
    "disk_full": 2,
    "cache_torn": 2,
}
"""Faults that a watcher survives, and their weights."""


@dataclass(frozen=True)
class Fault:
    """One fault; `seed` decides its details, `detail` names the step of a kill."""

    kind: str
    seed: str
    detail: str = ""


@dataclass(frozen=True)
class Episode:
    """Faults of one process: `life` of a watcher, `crash` of one at a step, a command that is killed, hostile files."""

    kind: str
    faults: tuple[Fault, ...]


def plan(seed: int, faults: int) -> list[Episode]:
    """Draw episodes with so many faults in total."""
    rnd = random.Random(seed)
    steps = (cycle(rnd.sample(STEPS, len(STEPS))), cycle(rnd.sample(COMMAND_STEPS, len(COMMAND_STEPS))))
    episodes: list[Episode] = []
    left = faults
    while left > 0:
        for episode in _block(rnd, steps, f"{seed} {len(episodes)}", min(left, 41)):
            episodes.append(Episode(episode.kind, episode.faults[-left:]))  # a life keeps its last fault
            left -= len(episodes[-1].faults)
            if left == 0:
                break
    return episodes


def counts(episodes: list[Episode]) -> dict[str, int]:
    """Count the faults by kind."""
    return dict(sorted(Counter(fault.kind for episode in episodes for fault in episode.faults).items()))


def _block(rnd: random.Random, steps: tuple[Iterator[str], Iterator[str]], seed: str, size: int) -> list[Episode]:
    """Draw episodes with about `size` faults; 41 cover all kinds. A kill takes ten times a bad answer."""
    crashes = [
        Episode("crash", (Fault("driver_killed_at_step", f"{seed} crash {n}", next(steps[0])),))
        for n in range(max(1, size * 2 // 41))
    ]
    faults = [
        Fault(kind, f"{seed} warm {n}")
        for n, kind in enumerate(
            rnd.choices(list(WATCHER_FAULTS), list(WATCHER_FAULTS.values()), k=max(2, size * 10 // 41))
        )
    ]
    end = Fault(rnd.choice(("driver_killed", "jvm_killed")), f"{seed} end")
    buckets = [
        Episode(
            "bucket", tuple(Fault("s3_answer_bad", f"{seed} s3 {number} {n}") for n in range(max(3, size * 11 // 41)))
        )
        for number in range(max(1, size * 2 // 41))
    ]
    others = [
        Episode("command", (Fault("command_killed", f"{seed} command", next(steps[1])),)),
        Episode("restore", (Fault("data_file_corrupted", f"{seed} restore"),)),
        Episode("job", (Fault("airflow_job_killed", f"{seed} job"),)),
        Episode("power", (Fault("power_cut", f"{seed} power"),)),
        Episode("withdraw", (Fault("withdrawal_killed", f"{seed} withdraw", rnd.choice(WITHDRAW_STEPS)),)),
    ]
    hostile = [
        Episode("erase", (Fault("erasure_killed", f"{seed} erase", rnd.choice(ERASE_STEPS)),)),
        Episode("row", (Fault("batch_killed_by_row", f"{seed} row", rnd.choice(("object", "request"))),)),
        Episode("readers", (Fault("readers_killed_by_files", f"{seed} readers"),)),
        Episode("oversized", (Fault("file_does_not_fit", f"{seed} oversized"),)),
    ]
    block = [Episode("life", (*faults, end)), *crashes, *buckets]
    if size >= 41:
        block += [*rnd.sample(others, 4), *hostile]
    return rnd.sample(block, len(block))
