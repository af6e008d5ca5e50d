"""The engine beside what people would otherwise pick, on the same files: equal matches first, then time.

A peer is a program of its own in infra/peers, called with a folder (see peer_files.py) and the number of objects, the
first so many of the file. It prints a JSON object: version, setting (how it was configured), load_seconds, seconds (of
matching alone), matches, and key_sum, the sum of the keys of all matched subscriptions. A peer that cannot be started
is told as absent. Slow peers get fewer objects; their speed is per object, and hardly depends on the number.
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

from pststream.benchmarks.support.arrays import clause_lists, frequencies, index_table, object_batch
from pststream.benchmarks.support.homes import BenchHome
from pststream.benchmarks.support.peer_files import write_peer_files
from pststream.benchmarks.support.targets import at_least
from pststream.domain.pieces import rarest_clause_first
from pststream.errors import PstError
from pststream.generator.paper_subscriptions import QueryStyle
from pststream.generator.synthetic_arrays import SyntheticObjects, synthetic_objects, synthetic_subscriptions
from pststream.matching.matcher import match_objects, probe_of
from pststream.matching.segments import build_segment
from pststream.pipeline.batch.micro_batch import match
from pststream.progress import Progress
from pststream.settings import Settings

ROOT = Path(__file__).parents[2]
RUNNERS = ROOT / "infra" / "peers"
OBJECTS = 200_000
SUBSCRIPTIONS = {"small": 50_000, "full": 1_000_000}
STYLE = QueryStyle(connective="and", frequent_share=0.5)
LIMIT_SECONDS = 1_800


@dataclass(frozen=True)
class Peer:
    """How to start a peer; what must be there for it; its number of objects at full size; the target of the kernel."""

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
class Answer:
    """Of the first n objects, for every n: matches, and the sum of their subscriptions' keys (int64[objects+1])."""

    matches: np.ndarray
    key_sums: np.ndarray


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Objects/s of the kernel, of the whole job and of each peer; a peer with other matches is an error."""
    objects = synthetic_objects(OBJECTS, seed)
    subscriptions = synthetic_subscriptions(SUBSCRIPTIONS[scale], seed, objects, STYLE)
    clauses, _, _ = rarest_clause_first(clause_lists(subscriptions), frequencies(objects).of)
    segment = build_segment(index_table(subscriptions, clauses))
    answer, kernel = _kernel(objects, segment)
    progress(f"kernel: {kernel:,.0f} objects/s")
    figures: dict[str, Any] = {
        "subscriptions": SUBSCRIPTIONS[scale],
        "matches_per_object": round(int(answer.matches[-1]) / OBJECTS, 2),
        "kernel_objects_per_second": round(kernel),
    }
    targets = {}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        bench = BenchHome(f"{folder}/home", seed, progress)
        bench.add_drawn_subscriptions(subscriptions)
        job = _whole_job(bench, objects, settings, int(answer.matches[-1]))
        figures["job_objects_per_second"] = round(job)
        progress(f"whole job: {job:,.0f} objects/s")
        write_peer_files(Path(folder), objects, subscriptions)
        Path(folder).chmod(0o755)
        for name, peer in PEERS.items():
            count = peer.objects if scale == "full" else peer.objects // 10
            told = _peer(name, peer, folder, count, answer)
            figures |= {f"{name}_{figure}": value for figure, value in told.items()}
            speed = told.get("objects_per_second")
            progress(f"{name}: {speed:,} objects/s" if speed else f"{name}: {told['state']}")
            if speed:
                figures[f"kernel_over_{name}"] = round(kernel / speed, 1)
                figures[f"job_over_{name}"] = round(job / speed, 1)
                if scale == "full":
                    targets[f"job_over_{name}"] = at_least(job / speed, 1.0)
                    if peer.kernel_times:
                        targets[f"kernel_over_{name}"] = at_least(kernel / speed, peer.kernel_times)
    return {"figures": figures, "floor": {}, "targets": targets}


def _kernel(objects: SyntheticObjects, segment: Any) -> tuple[Answer, float]:
    times = []
    for _ in range(4):
        began = time.perf_counter()
        batch = object_batch(objects)
        found = match_objects(batch, [probe_of(segment)], 1)
        times.append(time.perf_counter() - began)
    sums = np.concatenate([[0], np.cumsum(found.keys)])
    totals = np.zeros((2, OBJECTS + 1), np.int64)
    totals[0, 1 + batch.order] = np.diff(found.offsets)
    totals[1, 1 + batch.order] = np.diff(sums[found.offsets])
    return Answer(*np.cumsum(totals, axis=1)), OBJECTS / float(np.median(times[1:]))


def _whole_job(bench: BenchHome, objects: SyntheticObjects, settings: Settings, expected: int) -> float:
    """Objects/s of a warm micro-batch, Delta in and out."""
    bench.add_objects(50_000)
    match(bench.home, settings, max_objects=1 << 40, one=True)
    bench.add_drawn_objects([objects])
    began = time.perf_counter()
    found = match(bench.home, settings, max_objects=1 << 40, one=True)
    seconds = time.perf_counter() - began
    if found["matches"] != expected:
        raise PstError(f"the job found {found['matches']} matches, the kernel {expected}", "please report this fault")
    return OBJECTS / seconds


def _why(errors: str) -> str:
    """The line of a traceback that names the exception, else the last line."""
    lines = errors.strip().splitlines() or ["no word"]
    return next((line for line in lines if "Exception" in line or "Error" in line), lines[-1])


def _peer(name: str, peer: Peer, folder: str, count: int, answer: Answer) -> dict[str, Any]:
    if not peer.needs.exists():
        return {"state": "absent"}
    try:
        done = subprocess.run(
            [*peer.command, folder, str(count)], capture_output=True, text=True, timeout=LIMIT_SECONDS, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return {"state": f"absent: {problem}"}
    if done.returncode:
        return {"state": f"absent: {_why(done.stderr)}"}
    told = json.loads(done.stdout.strip().splitlines()[-1])
    expected = {"matches": int(answer.matches[count]), "key_sum": int(answer.key_sums[count])}
    if {figure: told[figure] for figure in expected} != expected:
        raise PstError(f"{name} does not find the same matches: {told}, expected {expected}", "its time does not count")
    return {
        "state": told["version"],
        "setting": told["setting"],
        "objects": count,
        "load_seconds": round(told["load_seconds"], 1),
        "objects_per_second": round(count / told["seconds"], 1),
    }
