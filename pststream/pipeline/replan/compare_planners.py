"""Compare planners (`pststream plans compare`): match the newest objects of a home under the plan of each, and time it.

The tables of the home do not change: each planner has a scratch home (planner_trial.py) in which the usual jobs run.
The measured loads are reported next to those that the load model predicted.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pststream.base import names
from pststream.base.errors import PstError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.pipeline.replan.planner_trial import Trial, done_files, share_rounds
from pststream.planning.planners.registry import installed_planners, load_planner
from pststream.settings import Settings
from pststream.state.home import Home


def compare(
    home: Home,
    settings: Settings,
    planners: Sequence[str] | None = None,
    objects: int = 1_000_000,
    rounds: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Plan and match with each planner (None: all installed ones), on about `objects` of the newest, in whole files.

    In each of `rounds` rounds the objects are matched once more under every plan in turn, and the least seconds of each
    worker count: on a shared machine the load of others comes and goes, and must not fall on one planner alone. `auto`
    and the planner that it chose have one plan, so the rounds of both count for both: the same index in another place
    in memory can take a tenth more time. With rounds the indexes of all planners are on disk at the same time,
    otherwise one at a time.

    Returns {"plans": [figures of each, the best throughput first], "objects", "requests", "matches", "workers"}.
    Raises UsageError for a home without objects or requests, MissingExtra for a planner whose package is not installed,
    PstError if two planners do not find the same matches.
    """
    home.check()
    with home.locked():
        if {file["kind"] for file in done_files(home)} != {"objects", "requests"}:
            raise UsageError(f"home {home.path} has no objects or no requests", "ingest some first")
        for planner in planners or ():
            load_planner(planner)
        chosen = planners or installed_planners(progress)
        root = home.work_folder / "compare"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        try:
            figures = _run_trials(home, settings, chosen, objects, rounds, root, progress)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    matches = {f["planner"]: f["matches"] for f in figures}
    if len(set(matches.values())) > 1:
        raise PstError(f"planners found different numbers of matches: {matches}", "please report this: it is a bug")
    return {
        "workers": settings.workers,
        **{name: figures[0][name] for name in ("objects", "requests", "matches")},
        "plans": sorted(figures, key=lambda f: -f["throughput"]),
    }


def _run_trials(
    home: Home, settings: Settings, planners: Sequence[str], objects: int, rounds: int, root: Path, progress: Progress
) -> list[dict[str, Any]]:
    """Return the figures of each planner."""

    def run_trial(planner: str, kept: bool) -> Trial:
        # Python workers keep plans and segments by the paths of their homes, so each trial has a new path.
        folder = Path(tempfile.mkdtemp(dir=root))
        cache = str((root if kept else folder) / "cache")
        # Nothing is evicted: an evicted segment would be built again in a measured round.
        chosen = replace(settings, cache_dir=cache, cache_bytes=names.MAX_INT64)
        trial = Trial(home, chosen, planner, objects, folder / "home")
        if not kept:
            shutil.rmtree(folder)
        return trial

    progress("warming up")
    run_trial(planners[0], kept=False)
    trials = []
    for number, planner in enumerate(planners, 1):
        progress(f"planner {number} of {len(planners)}: planning and matching with {planner}")
        trials.append(run_trial(planner, kept=rounds > 0))
    for number in range(1, rounds + 1):
        progress(f"round {number} of {rounds}")
        for trial in trials:
            trial.match_again()
    share_rounds((trial.made, trial.rounds) for trial in trials)
    return [trial.figures() for trial in trials]
