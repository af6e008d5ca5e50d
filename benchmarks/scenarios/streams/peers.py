"""Benchmark matching against other systems (peers) on the same files; matches must be equal before time counts.

A peer is a separate program in infra/peers, called with a folder (see support/peer_files.py) and the number of objects
to match, from the start of the file. It prints a JSON object: version, setting (its configuration), load_seconds,
seconds (of matching alone), matches, and key_sum, the sum of the keys of all matched subscriptions. A peer that cannot
be started is reported as absent. Slow peers get fewer objects; their speed is per object, and hardly depends on the
number.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measured_homes import BenchHome, frequencies, object_batch
from benchmarks.support.peer_files import write_peer_files
from benchmarks.support.targets import at_least
from pststream.base.errors import PstError
from pststream.base.progress import Progress, Steps
from pststream.matching.matcher import make_probe, match_objects
from pststream.matching.segments import build_segment
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.calibrate.synthetic_homes import clause_lists, index_table
from pststream.plans.pieces import rarest_clause_first
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.synthetic_arrays import SyntheticObjects, synthetic_objects, synthetic_subscriptions

ROOT = Path(__file__).parents[3]
RUNNERS = ROOT / "infra" / "peers"
OBJECTS = 200_000
SUBSCRIPTIONS = {"small": 50_000, "full": 1_000_000}
STYLE = SubscriptionStyle(connective="and", frequent_share=0.5)
LIMIT_SECONDS = 1_800


@dataclass(frozen=True)
class Peer:
    """The command of a peer, the file it needs, its number of objects at full size, the target of the kernel."""

    command: tuple[str, ...]
    needs: Path
    objects: int
    kernel_times: float | None = None


_LUCENE = RUNNERS / "lucene" / "target"
_PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
PEERS = {
    "sedonadb": Peer((str(_PEERS_PYTHON), str(RUNNERS / "sedona_runner.py")), _PEERS_PYTHON, 100_000, 25.0),
    "lucene_monitor": Peer(
        ("java", "-Xmx14g", "-cp", f"{_LUCENE}/lucene-peer.jar:{_LUCENE}/lib/*", "LuceneRunner"),
        _LUCENE / "lucene-peer.jar",
        2_000,
        1_000.0,
    ),
    "postgresql": Peer((sys.executable, str(RUNNERS / "postgres_runner.py")), RUNNERS / "postgres_runner.py", 10_000),
    "spark_sql": Peer((sys.executable, str(RUNNERS / "spark_runner.py")), RUNNERS / "spark_runner.py", 50_000),
}


@dataclass(frozen=True)
class ExpectedMatches:
    """For every n, the matches of the first n objects: their number and sum of subscription keys (int64[objects+1])."""

    matches: np.ndarray
    key_sums: np.ndarray


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure objects/s of the kernel, of the whole job and of each peer; a peer with other matches is an error."""
    steps = Steps(progress, 2 + len(PEERS))
    objects = synthetic_objects(OBJECTS, seed)
    subscriptions = synthetic_subscriptions(SUBSCRIPTIONS[scale], seed, objects, STYLE)
    clauses, _, _ = rarest_clause_first(clause_lists(subscriptions), frequencies(objects).frequency)
    segment = build_segment(index_table(subscriptions, clauses))
    expected, kernel = _kernel(objects, segment)
    steps.end(f"kernel: {kernel:,.0f} objects/s")
    figures: dict[str, Any] = {
        "subscriptions": SUBSCRIPTIONS[scale],
        "matches_per_object": round(int(expected.matches[-1]) / OBJECTS, 2),
        "kernel_objects_per_second": round(kernel),
    }
    targets = {}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        bench.add_drawn_subscriptions(subscriptions)
        job = _whole_job(bench, objects, settings, int(expected.matches[-1]))
        figures["job_objects_per_second"] = round(job)
        steps.end(f"whole job: {job:,.0f} objects/s")
        write_peer_files(Path(folder), objects, subscriptions)
        Path(folder).chmod(0o755)
        for name, peer in PEERS.items():
            count = peer.objects if scale == "full" else peer.objects // 10
            result = _run_peer(name, peer, folder, count, expected)
            figures |= {f"{name}_{figure}": value for figure, value in result.items()}
            speed = result.get("objects_per_second")
            steps.end(f"{name}: {speed:,} objects/s" if speed else f"{name}: {result['state']}")
            if speed:
                figures[f"kernel_over_{name}"] = round(kernel / speed, 1)
                figures[f"job_over_{name}"] = round(job / speed, 1)
                if scale == "full":
                    targets[f"job_over_{name}"] = at_least(job / speed, 1.0)
                    if peer.kernel_times:
                        targets[f"kernel_over_{name}"] = at_least(kernel / speed, peer.kernel_times)
    return {"figures": figures, "floor": {}, "targets": targets}


def _kernel(objects: SyntheticObjects, segment: Any) -> tuple[ExpectedMatches, float]:
    times = []
    for _ in range(4):
        began = time.perf_counter()
        batch = object_batch(objects)
        pairs = match_objects(batch, [make_probe(segment)], 1)
        times.append(time.perf_counter() - began)
    sums = np.concatenate([[0], np.cumsum(pairs.keys)])
    totals = np.zeros((2, OBJECTS + 1), np.int64)
    totals[0, 1 + batch.order] = np.diff(pairs.offsets)
    totals[1, 1 + batch.order] = np.diff(sums[pairs.offsets])
    return ExpectedMatches(*np.cumsum(totals, axis=1)), OBJECTS / float(np.median(times[1:]))


def _whole_job(bench: BenchHome, objects: SyntheticObjects, settings: Settings, expected: int) -> float:
    """Measure objects/s of a warm micro-batch, Delta in and out."""
    bench.add_objects(50_000)
    match(bench.home, settings, max_objects=1 << 40, one=True)
    bench.add_drawn_objects([objects])
    began = time.perf_counter()
    done = match(bench.home, settings, max_objects=1 << 40, one=True)
    seconds = time.perf_counter() - began
    if done["matches"] != expected:
        raise PstError(f"the job found {done['matches']} matches, the kernel {expected}", "please report this bug")
    return OBJECTS / seconds


def _error_line(errors: str) -> str:
    """Return the line of a traceback that names the exception, else the last line."""
    lines = errors.strip().splitlines() or ["no output"]
    return next((line for line in lines if "Exception" in line or "Error" in line), lines[-1])


def _run_peer(name: str, peer: Peer, folder: str, count: int, expected: ExpectedMatches) -> dict[str, Any]:
    """Run a peer on the first `count` objects; return its figures, or only a state if it could not run."""
    if not peer.needs.exists():
        return {"state": "absent"}
    try:
        done = subprocess.run(
            [*peer.command, folder, str(count)], capture_output=True, text=True, timeout=LIMIT_SECONDS, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return {"state": f"absent: {problem}"}
    if done.returncode:
        return {"state": f"absent: {_error_line(done.stderr)}"}
    output = json.loads(done.stdout.strip().splitlines()[-1])
    totals = {"matches": int(expected.matches[count]), "key_sum": int(expected.key_sums[count])}
    if {figure: output[figure] for figure in totals} != totals:
        raise PstError(f"{name} does not find the same matches: {output}, expected {totals}", "its time does not count")
    return {
        "state": output["version"],
        "setting": output["setting"],
        "objects": count,
        "load_seconds": round(output["load_seconds"], 1),
        "objects_per_second": round(count / output["seconds"], 1),
    }
