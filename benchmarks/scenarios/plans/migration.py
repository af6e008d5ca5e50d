"""Benchmark migrations of 1%, 2% and 4% of the subscriptions between two workers, and the micro-batches around them."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measured_homes import BenchHome
from benchmarks.support.paper_workloads import OBJECTS_ALONE, describe_workload
from benchmarks.support.targets import at_most
from pststream.base.progress import Progress, Steps
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.planning.plan import draw_sample, plan
from pststream.pipeline.replan.balance import balance
from pststream.pipeline.replan.proposal_file import Decision, Proposal, digest_of, write_proposal
from pststream.planning.balancing.contract import Adjustment
from pststream.planning.load_model import CostModel, compute_worker_loads
from pststream.planning.raster import compute_cell_ranges
from pststream.plans.plan import DispatchGrid
from pststream.plans.plan_moves import Move, apply_move
from pststream.plans.planner_sample import WorkloadSample
from pststream.settings import Settings
from pststream.state.plans import current_version, load_plan
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (50_000, 20_000), "full": (5_000_000, 200_000)}
STYLE = SubscriptionStyle("q1", frequent_share=0.3)
SHARES = (0.01, 0.02, 0.04)
BATCHES = 3
"""Number of batches measured before and after each migration."""


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure the seconds to move about 1%, 2% and 4% of the subscriptions from worker 0 to 1, and nearby batches."""
    subscriptions, objects = SIZES[scale]
    figures: dict[str, Any] = {"subscriptions": subscriptions, "workload": describe_workload(STYLE, OBJECTS_ALONE)}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        chosen = replace(settings, planner="kd_tree", cache_dir=f"{folder}/cache")
        bench.add_subscriptions(subscriptions, STYLE)
        bench.add_objects(objects)
        plan(bench.home, chosen)
        match(bench.home, chosen, one=True)
        steps = Steps(progress, len(SHARES), alike=True)
        for share in SHARES:
            name = f"{share:.0%}".replace("%", "_percent")
            before = [_batch(bench, chosen, objects) for _ in range(BATCHES)]
            proposal = Path(folder) / "proposal.npz"
            write_proposal(proposal, _proposed(bench, chosen, share))
            done = balance(bench.home, chosen, "local", proposal=proposal)
            after = [_batch(bench, chosen, objects) for _ in range(BATCHES)]
            figures |= {
                f"{name}_moved": done["moved_subscriptions"],
                f"{name}_moved_bytes": done["moved_bytes"],
                f"{name}_seconds": done["seconds"],
                f"{name}_batch_before": round(float(np.median(before)), 3),
                f"{name}_next_batch": round(after[0], 3),
                f"{name}_batch_after": round(float(np.median(after)), 3),
            }
            steps.end(
                f"moved {done['moved_subscriptions']} subscriptions in {done['seconds']} s; next batch {after[0]:.2f} s"
            )
    ratio = figures["1_percent_next_batch"] / figures["1_percent_batch_before"]
    figures["next_batch_over_before"] = round(ratio, 3)
    return {"figures": figures, "floor": {}, "targets": {"next_batch_over_before": at_most(ratio, 1.2)}}


def _batch(bench: BenchHome, settings: Settings, objects: int) -> float:
    """Run a batch of objects; return its seconds."""
    bench.add_objects(objects)
    (batch,) = match(bench.home, settings, one=True)["batches"]
    return float(sum(batch["seconds"].values()))


def _proposed(bench: BenchHome, settings: Settings, share: float) -> Proposal:
    """Propose to move raster cells of worker 0 with about this share of all subscriptions to worker 1."""
    version = current_version(bench.home)
    sample, _ = draw_sample(bench.home, settings)
    before, cost = load_plan(bench.home, version), CostModel.of(settings)
    move = Move(0, 1, _cells(sample, before.unit_worker[before.leaf_unit[before.cell_leaf]] == 0, before.grid, share))
    after = apply_move(before, move)
    loads = [compute_worker_loads(sample, one, cost) for one in (before, after)]
    return Proposal(
        "local",
        version,
        digest_of(before),
        Decision("benchmark", 1.0, Adjustment(after, [move], ["gr"], loads[0], loads[1])),
    )


def _cells(sample: WorkloadSample, mine: np.ndarray, grid: DispatchGrid, share: float) -> np.ndarray:
    """Return the first columns of `mine` (bool[cells]) that boxes of about this share of the sample touch."""
    x0, y0, x1, y1 = compute_cell_ranges(grid, sample.boxes).T
    row, column = np.divmod(np.arange(grid.cells), grid.columns)
    first, low, high = column[mine].min(), row[mine].min(), row[mine].max()
    touched = np.sort(np.maximum(x0, first)[(y1 >= low) & (y0 <= high) & (x1 >= first)])
    last = touched[min(int(share * sample.pieces), len(touched) - 1)]
    return np.flatnonzero(mine & (column <= last))
