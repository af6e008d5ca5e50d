"""Benchmark `pststream ingest`: rows/s by format, against reading and writing the same bytes, and growth with the rows.

`seconds` is the time of the ingest in a warm process: from the hash of the file to the last commit. `command_seconds`
is the time of the whole command in a process of its own, its start included.
"""

import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.support.memory import MemoryWatch
from benchmarks.support.targets import at_least
from benchmarks.support.watchers import COMMAND
from pststream.base.progress import Progress, Steps
from pststream.pipeline.ingest.deduplicate import TABLE_OF
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.settings import Settings
from pststream.state.data_files import list_data_files
from pststream.state.home import Home
from pststream.workloads.generate_files import write_objects, write_requests

ROWS = {"small": {"objects": 50_000, "requests": 20_000}, "full": {"objects": 1_000_000, "requests": 500_000}}
GROWTH = {"small": (25_000, 50_000, 100_000), "full": (250_000, 1_000_000, 4_000_000)}
FORMATS = {"objects": ("csv", "jsonl", "parquet"), "requests": ("jsonl", "parquet")}
TARGETS = {"objects": 400_000, "requests": 150_000}
"""Rows/s on two cores."""

RUNS = {"small": 1, "full": 3}
BLOCK_BYTES = 1 << 22

WRITE: dict[str, Callable[..., Any]] = {"objects": write_objects, "requests": write_requests}


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure each kind and format at one size, and objects in CSV at growing sizes."""
    figures: dict[str, float] = {}
    floor: dict[str, float] = {}
    targets: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as folder:
        _warm_up(folder, seed, settings)
        steps = Steps(progress, sum(map(len, FORMATS.values())) + len(GROWTH[scale]))
        for kind, formats in FORMATS.items():
            for name in formats:
                case = f"{kind}_{name}"
                measured, least = _measure(folder, kind, name, ROWS[scale][kind], scale, seed, settings)
                figures.update({f"{case}_{figure}": value for figure, value in measured.items()})
                floor[f"{case}_seconds"] = least
                steps.end(f"{case}: {measured['rows_per_second']:,} rows/s")
                if scale == "full":
                    targets[f"{case}_rows_per_second"] = at_least(measured["rows_per_second"], TARGETS[kind])
        for rows in GROWTH[scale]:
            measured, _ = _measure(folder, "objects", "csv", rows, scale, seed, settings)
            for figure in ("seconds", "cpu_microseconds_per_row", "command_peak_mb"):
                figures[f"{figure}_at_{rows}"] = measured[figure]
            steps.end(f"{rows:,} objects: {measured['seconds']} s")
    return {"figures": figures, "floor": floor, "targets": targets}


def _warm_up(folder: str, seed: int, settings: Settings) -> None:
    """Ingest few rows of each kind and format, so that this process has loaded what an ingest needs."""
    for kind, formats in FORMATS.items():
        for name in formats:
            _ingest_once(Path(folder), kind, _write_input(folder, kind, name, 1000, seed), settings)


def _write_input(folder: str, kind: str, name: str, rows: int, seed: int) -> str:
    path = f"{folder}/{kind}-{rows}.{name}"
    if not os.path.exists(path):
        WRITE[kind](path, rows, seed)
    return path


def _measure(
    folder: str, kind: str, name: str, rows: int, scale: str, seed: int, settings: Settings
) -> tuple[dict[str, float], float]:
    """Return the figures of one file, and the seconds to read and write as many bytes."""
    path = _write_input(folder, kind, name, rows, seed)
    runs, floors = [], []
    for _ in range(RUNS[scale]):
        wall, cpu, written = _ingest_once(Path(folder), kind, path, settings)
        runs.append((wall, cpu))
        floors.append(_copy_bytes(folder, path, written))
    seconds, least = statistics.median(wall for wall, _ in runs), statistics.median(floors)
    command, peak = _run_command(folder, kind, path)
    return {
        "rows": rows,
        "megabytes": round(os.path.getsize(path) / 1e6, 1),
        "written_megabytes": round(written / 1e6, 1),
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds),
        "cpu_microseconds_per_row": round(statistics.median(cpu for _, cpu in runs) / rows * 1e6, 3),
        "over_floor": round(seconds / least, 2),
        "command_seconds": round(command, 2),
        "command_peak_mb": round(peak, 1),
    }, round(least, 4)


def _ingest_once(folder: Path, kind: str, path: str, settings: Settings) -> tuple[float, float, int]:
    """Ingest a file into a new home; return the seconds, the CPU seconds of this process, and the bytes written."""
    with tempfile.TemporaryDirectory(dir=folder) as home_folder:
        home = Home(f"{home_folder}/home")
        home.init()
        wall, cpu = time.perf_counter(), time.process_time()
        ingest(home, settings, kind, [path], ReaderOptions())
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return wall, cpu, sum(file.bytes for file in list_data_files(home, TABLE_OF[kind]))


def _copy_bytes(folder: str, path: str, written: int) -> float:
    """Return the seconds to read a file and to write `written` bytes, half of each in each of two threads."""
    size = os.path.getsize(path)

    def copy(half: int) -> None:
        with open(path, "rb") as source, open(f"{folder}/floor-{half}", "wb") as target:
            source.seek(half * size // 2)
            left, block = written // 2, b""
            for _ in range(half * size // 2, (half + 1) * size // 2, BLOCK_BYTES):
                block = source.read(BLOCK_BYTES)
            while left > 0:
                left -= target.write((block * (BLOCK_BYTES // len(block) + 1))[: min(left, BLOCK_BYTES)])

    began = time.perf_counter()
    threads = [threading.Thread(target=copy, args=(half,)) for half in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def _run_command(folder: str, kind: str, path: str) -> tuple[float, float]:
    """Run `pststream ingest` in a process of its own; return its seconds, and the peak of its own memory in MB."""
    with tempfile.TemporaryDirectory(dir=folder) as home_folder:
        Home(f"{home_folder}/home").init()
        arguments = ["ingest", kind, path, "--home", f"{home_folder}/home", "--quiet"]
        with MemoryWatch() as watch:
            began = time.perf_counter()
            subprocess.run([*COMMAND, *arguments], capture_output=True, check=True)
            return time.perf_counter() - began, watch.peaks["python_worker_peak_mb"]
