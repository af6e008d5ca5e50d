"""A chaos run: the plan's episodes one after the other, then quiet, then the comparison. Ends with 1 if they differ."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pststream.pipeline.engine.spark_session import stop_spark
from tests.chaos.cold import LANDING, bad_answers, corrupted, killed_command, killed_job
from tests.chaos.compare import compare, is_right
from tests.chaos.place import Place, made_place
from tests.chaos.plan import Episode, counts, plan
from tests.chaos.warm import crash, live
from tests.commands import run_here

EPISODES: dict[str, Callable[[Place, Episode], None]] = {
    "life": live,
    "crash": crash,
    "command": killed_command,
    "job": killed_job,
    "bucket": bad_answers,
    "restore": corrupted,
}
QUIET_ROUNDS = 20


def run(folder: Path, seed: int, faults: int, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Inject the faults of a plan, and compare; no episode is begun after so many seconds."""
    began = time.monotonic()
    episodes = plan(seed, faults)
    with made_place(folder, seed, files=2 * faults + 12) as place:
        for number, episode in enumerate(episodes, start=1):
            if time.monotonic() - began > seconds:
                break
            EPISODES[episode.kind](place, episode)
            spent = time.monotonic() - began
            say(f"{spent:.0f} s, episode {number} of {len(episodes)}: {episode.kind}, {place.injected.total()} faults")
        quiet(place)
        found = compare(place)
        right = is_right(found)
        if not right:
            shutil.copytree(place.home.path, folder / "home-as-it-was")
        return {
            "seed": seed,
            "right": right,
            "faults": place.injected.total(),
            "injected": dict(sorted(place.injected.items())),
            "planned": counts(episodes),
            "seconds": round(time.monotonic() - began),
            "disk": "tmpfs" if place.disk.mounted else "bound on the size of files",
            "corruption_noticed": place.noticed,
            **found,
        }


def quiet(place: Place) -> None:
    """All is well again: what is left is taken in, matched and delivered, and the tables are checked."""
    for landing in (place.landing, LANDING):
        place.home.run("run", landing)
    for _ in range(QUIET_ROUNDS):
        sinks = place.home.run("deliver")["sinks"]
        if all(sink["state"] == "ok" for sink in sinks.values()):
            break
    assert not place.home.run("quarantine", "list")["quarantine"]
    checked = run_here("check", "--all", "--home", place.home.path, "--json")
    assert checked.code == 0, checked.out + checked.err


def main() -> int:
    """Run by arguments; the summary on standard output, JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--faults", type=int, default=296)
    parser.add_argument("--minutes", type=float, default=17.0)
    arguments = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    say(f"seed {arguments.seed}")
    folder = Path(tempfile.mkdtemp(prefix="pststream-chaos-"))
    found = run(folder, arguments.seed, arguments.faults, arguments.minutes * 60, say)
    print(json.dumps(found, indent=1))
    say(f"seed {arguments.seed}: {'all is right' if found['right'] else f'NOT RIGHT, see {folder}'}")
    stop_spark()
    return 0 if found["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
