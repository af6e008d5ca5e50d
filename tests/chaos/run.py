"""Run the episodes of a chaos plan, then a quiet phase, then the comparison; exit with 1 if it fails."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pststream.engine.spark_session import stop_spark
from tests.chaos.command_faults import (
    LANDING,
    bad_answers,
    corrupted,
    killed_command,
    killed_job,
    killed_withdrawal,
    power_cut,
)
from tests.chaos.compare import compare, is_right
from tests.chaos.environment import ChaosEnvironment, chaos_environment
from tests.chaos.hostile_faults import KILLER, hostile_row, killed_erasure, killed_readers, oversized
from tests.chaos.plan import Episode, counts, plan
from tests.chaos.watcher_faults import crash, live
from tests.commands import run_here
from tests.unit.pipeline.upkeep.test_erase import CLEAN

EPISODES: dict[str, Callable[[ChaosEnvironment, Episode], None]] = {
    "life": live,
    "crash": crash,
    "command": killed_command,
    "job": killed_job,
    "bucket": bad_answers,
    "restore": corrupted,
    "power": power_cut,
    "withdraw": killed_withdrawal,
    "erase": killed_erasure,
    "row": hostile_row,
    "readers": killed_readers,
    "oversized": oversized,
}
QUIET_ROUNDS = 20

SEVERAL = 5
"""A single fault may come when there is nothing to disturb; of so many one takes effect."""


def run(folder: Path, seed: int, faults: int, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Inject the faults of a plan and compare the result; no episode starts after so many seconds."""
    began = time.monotonic()
    episodes, ran = plan(seed, faults), list[Episode]()
    with chaos_environment(folder, seed, files=2 * faults + 12) as chaos:
        for number, episode in enumerate(episodes, start=1):
            if time.monotonic() - began > seconds:
                break
            EPISODES[episode.kind](chaos, episode)
            spent = time.monotonic() - began
            say(f"{spent:.0f} s, episode {number} of {len(episodes)}: {episode.kind}, {chaos.injected.total()} faults")
            ran.append(episode)
        quiet(chaos)
        summary = compare(chaos) | {"without_effect": without_effect(counts(ran), chaos.injected)}
        right = is_right(summary)
        if not right:
            shutil.copytree(chaos.home.path, folder / "home-as-it-was")
        return {
            "seed": seed,
            "right": right,
            "faults": chaos.injected.total(),
            "injected": dict(sorted(chaos.injected.items())),
            "planned": counts(ran),
            "seconds": round(time.monotonic() - began),
            "disk": "tmpfs" if chaos.disk.mounted else "limit on the size of files",
            "corruption_noticed": chaos.noticed,
            **summary,
        }


def without_effect(planned: dict[str, int], injected: Mapping[str, int]) -> list[str]:
    """Return the kinds of faults of which none of several took effect: the run does not inject them any more."""
    return sorted(kind for kind, count in planned.items() if count >= SEVERAL and not injected[kind])


def quiet(chaos: ChaosEnvironment) -> None:
    """Without faults, ingest, match and deliver the rest, and check the tables."""
    for landing in (chaos.landing, LANDING):
        chaos.home.run("run", landing)
    for _ in range(QUIET_ROUNDS):
        sinks = chaos.home.run("deliver")["sinks"]
        if all(sink["state"] == "ok" for sink in sinks.values()):
            break
    held = {Path(entry["path"]).name for entry in chaos.home.run("quarantine", "list")["quarantine"]}
    assert held <= {KILLER, *CLEAN}, held
    checked = run_here("check", "--all", "--home", chaos.home.path, "--json")
    assert checked.code == 0, checked.out + checked.err


def main() -> int:
    """Run with command-line arguments; print the summary as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--faults", type=int, default=296)
    parser.add_argument("--minutes", type=float, default=17.0)
    arguments = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    say(f"seed {arguments.seed}")
    folder = Path(tempfile.mkdtemp(prefix="pststream-chaos-"))
    summary = run(folder, arguments.seed, arguments.faults, arguments.minutes * 60, say)
    print(json.dumps(summary, indent=1))
    say(f"seed {arguments.seed}: {'the result is right' if summary['right'] else f'the result is WRONG, see {folder}'}")
    stop_spark()
    return 0 if summary["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
