"""Measure the search of standing `knn` queries at each worker of several plans, in one home."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pststream.base.progress import no_progress
from pststream.base.steps import Steps
from pststream.pipeline.batch.match_task import WorkerReport
from pststream.pipeline.calibrate.standing_homes import StandingHome
from pststream.pipeline.calibrate.standing_worlds import STREAMS, QueryWords, draw_knn
from pststream.pipeline.planning.plan import plan
from pststream.pipeline.replan.discarded_match import match_and_discard
from pststream.settings import Settings

STREAM = "tw14"
LATER = 1_000
"""Objects of the batch after the first answers, which writes their circles to the index."""


class KnnStyle(NamedTuple):
    """How `knn` queries are drawn: a name, the least and the greatest k, their words."""

    name: str
    k: tuple[int, int]
    words: QueryWords


def measure_knn(
    style: KnnStyle,
    sizes: tuple[int, int],
    plans: Sequence[tuple[str, int]],
    rounds: int,
    seed: int,
    settings: Settings,
    steps: Steps,
) -> list[np.ndarray]:
    """Return the points of each plan: float64[workers, 5], the work of each worker that received objects.

    sizes  subscriptions, objects
    plans  planner and number of workers of each

    A point has the objects, the stored pieces, the postings read, the candidates, and the CPU seconds, the least of the
    rounds. The objects are those that the answers were computed from; they are matched with the circles of these.
    """
    subscriptions, objects = sizes
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        home = StandingHome(Path(folder), STREAMS[STREAM], seed, settings, no_progress)
        home.add_objects(objects)
        source = home.stream.draw(objects, home.next_seed())
        home.add_queries(draw_knn(source, subscriptions, style.k, style.words, home.next_seed()))
        home.run_batch()
        home.add_objects(LATER)
        home.run_batch()
        points = []
        for planner, workers in plans:
            chosen = replace(home.settings, planner=planner, planner_options="", workers=workers)
            version = plan(home.bench.home, chosen)["plan_version"]
            searches = [match_and_discard(home.bench.home, chosen, version, slice(None)) for _ in range(rounds + 1)]
            points.append(_points(searches[1:]))  # the first search builds the segments
            steps.end(f"knn, {style.name}, {planner} over {workers} workers")
    return points


def _points(searches: list[list[WorkerReport]]) -> np.ndarray:
    """Return the points of the searches of one plan, which differ in their CPU seconds alone, and in their order."""
    searches = [sorted(search, key=lambda report: report.worker) for search in searches]
    seconds = np.min([[report.counts.cpu_seconds for report in search] for search in searches], axis=0)
    (*_, last) = searches
    work = [
        (
            report.counts.objects,
            report.subscriptions,
            sum(int(units.candidates.sum()) for units in report.counts.units),
            sum(int(units.matches.sum()) for units in report.counts.units),
        )
        for report in last
    ]
    received = np.array([objects > 0 for objects, *_ in work])
    return np.column_stack([np.array(work, np.float64), seconds])[received]
