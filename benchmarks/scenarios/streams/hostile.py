"""Benchmark a day of stream time under `pststream run --watch`, once with good files alone and once with hostile ones.

The good files land at an even rate, the same in both runs, and hostile files of each kind land between them. No good
row may be lost or wait, and each hostile file must get its verdict (support/hostile_files.py). At the end a row of each
hostile file is erased, beside those in quarantine.
"""

import datetime as dt
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.hostile_files import CATALOGUE, HostileFile, Rows, find_wrong_verdicts
from benchmarks.support.memory import MemoryWatch
from benchmarks.support.reader_deaths import HOME_HARMS, READER_DEATHS, make_environment
from benchmarks.support.targets import at_most
from benchmarks.support.watchers import COMMAND, WatcherService, idle_watcher, matched, start_watcher
from pststream.base import names
from pststream.base.errors import PstError
from pststream.base.progress import Progress, Steps
from pststream.base.texts import counted
from pststream.base.utc_times import iso
from pststream.engine.spark_session import stop_spark
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.settings import Settings
from pststream.state import quarantine
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import read_batches, read_files
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.generate_files import write_objects, write_requests

SIZES = {"small": (2_000, 60, 0.1), "full": (200_000, 2_880, 0.25)}
"""Subscriptions, good files, and seconds from one to the next."""

OBJECTS = 500
STREAM_SECONDS = 30.0
"""Objects of a file, and stream time from one file to the next: 2,880 files are a day."""

START = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
STYLE = SubscriptionStyle(frequent_share=0.12)

WARM_SHARE, HOSTILE_SHARE, LAST_SHARE = 0.05, 0.8, 0.1
"""Shares of the good files: first ones that are not counted, those between which hostile files land, and the last ones,
by which lag must be normal again.
"""

HOSTILE = (*CATALOGUE, *READER_DEATHS, *HOME_HARMS)
PATIENCE_SECONDS = 7_200.0
"""How long the last good file may wait, and then a hostile one for its verdict: rows that kill their batch are found
after many deaths, and each start takes long on a busy machine.
"""

FRESH_KILLERS = 3
"""Files that kill their reader of which one lands whenever the watcher has been started again."""

MAX_ROUNDS = 3
"""Rounds that a good file may wait for, beside a file that kills its reader."""

MARGIN_SECONDS = 1.0
"""A round that begins so soon after a file has landed may have found it not settled yet."""

MAX_LAG_RATIO = 1.25
MAX_MEMORY_MB = 3_000
"""Of all processes of the watcher together. A reader may have several rows of 64 MiB and what they decode to."""


@dataclass(frozen=True)
class _Run:
    """What one run measured: delays in seconds and in rounds by the number of the good file, and counts.

    left   ids and files in quarantine that an erasure of a row of each hostile file should have removed
    """

    delays: np.ndarray
    rounds: np.ndarray
    seconds: float
    accepted: int
    matches: int
    memory_mb: float
    restarts: int
    wrong: list[str]
    left: list[str]


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Measure rate, delays and memory without and with hostile files, and count wrong verdicts and lost rows."""
    subscriptions, files, seconds = SIZES[scale]
    steps = Steps(progress, 3)
    with tempfile.TemporaryDirectory(prefix="pststream-bench-") as name:
        folder = Path(name)
        parts = _write_parts(folder, files, seed)
        write_requests(folder / "requests.parquet", subscriptions, seed, style=STYLE)
        steps.end(f"{files:,} files of {OBJECTS} objects and {subscriptions:,} subscriptions written")
        runs: dict[str, _Run] = {}
        for case, catalogue in (("good", ()), ("hostile", HOSTILE)):
            hostile = random.Random(seed).sample(catalogue, len(catalogue))
            runs[case] = _replay(folder / case, folder, settings, parts, seconds, hostile, progress)
            one = runs[case]
            delay = f"median {np.median(one.delays):.2f} s, at most {counted(int(one.rounds.max()), 'round')}"
            steps.end(f"{case}: {delay}, {len(one.wrong)} wrong verdicts")
    for line in (*runs["hostile"].wrong, *runs["hostile"].left):
        progress(line)
    return _report(scale, subscriptions, files, runs)


def _report(scale: str, subscriptions: int, files: int, runs: dict[str, _Run]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "subscriptions": subscriptions,
        "good_files": files,
        "hostile_files": len(HOSTILE) + FRESH_KILLERS,
        "stream_hours": round(files * STREAM_SECONDS / 3600, 2),
    }
    warm, last = int(files * WARM_SHARE), int(files * (1 - LAST_SHARE))
    for case, one in runs.items():
        figures |= {
            f"{case}_seconds": round(one.seconds, 1),
            f"{case}_objects_per_second": round(files * OBJECTS / one.seconds),
            f"{case}_median_seconds": round(float(np.median(one.delays[warm:])), 3),
            f"{case}_p99_seconds": round(float(np.quantile(one.delays[warm:], 0.99)), 3),
            f"{case}_max_seconds": round(float(one.delays[warm:].max()), 3),
            f"{case}_delayed_files": int(np.count_nonzero(one.rounds)),
            f"{case}_max_rounds": int(one.rounds.max()),
            f"{case}_last_median_seconds": round(float(np.median(one.delays[last:])), 3),
            f"{case}_memory_peak_mb": one.memory_mb,
            f"{case}_restarts": one.restarts,
        }
    good, hostile = runs["good"], runs["hostile"]
    expected = files * OBJECTS + sum(file.accepted for file in HOSTILE if file.kind == "objects")
    figures |= {
        "wrong_verdicts": len(hostile.wrong),
        "not_erased": len(hostile.left),
        "rows_lost": abs(expected - hostile.accepted),
        "matches_changed": abs(good.matches - hostile.matches),
        "last_lag_over_good": round(figures["hostile_last_median_seconds"] / figures["good_last_median_seconds"], 3),
    }
    targets = {
        name: at_most(figures[name], 0) for name in ("wrong_verdicts", "not_erased", "rows_lost", "matches_changed")
    }
    if scale == "full":
        targets |= {
            "hostile_max_rounds": at_most(figures["hostile_max_rounds"], MAX_ROUNDS),
            "hostile_seconds": at_most(figures["hostile_seconds"], 3600.0),
            "last_lag_over_good": at_most(figures["last_lag_over_good"], MAX_LAG_RATIO),
            "hostile_memory_peak_mb": at_most(figures["hostile_memory_peak_mb"], MAX_MEMORY_MB),
        }
    return {"figures": figures, "floor": {}, "targets": targets}


def _write_parts(folder: Path, files: int, seed: int) -> list[Path]:
    """Write the good files, which land later under the same names."""
    every = STREAM_SECONDS / OBJECTS
    write_objects(folder / "all.jsonl", files * OBJECTS, seed, start=START, seconds_per_object=every)
    (folder / "parts").mkdir()
    parts = []
    with open(folder / "all.jsonl", encoding="utf-8") as lines:
        for ordinal in range(files):
            part = folder / "parts" / f"good-{ordinal:05}.jsonl"
            part.write_text("".join(next(lines) for _ in range(OBJECTS)), "utf-8")
            parts.append(part)
    return parts


def _replay(
    place: Path,
    inputs: Path,
    settings: Settings,
    parts: list[Path],
    seconds: float,
    hostile: list[HostileFile],
    progress: Progress,
) -> _Run:
    """Let the files land for a watcher of a new home; return what was measured."""
    home, landing = Home(f"{place}/home"), place / "landing"
    for kind in ("objects", "requests"):
        (landing / kind).mkdir(parents=True)
    home.init()
    ingest(home, settings, "requests", [f"{inputs}/requests.parquet"], ReaderOptions(), progress)
    match(home, settings, progress=progress)
    stop_spark()
    environment = make_environment(place / "site")
    with MemoryWatch() as memory:
        watcher = WatcherService(lambda: start_watcher(home, settings, landing, **environment))
        try:
            watcher.wait(lambda: idle_watcher(home) == watcher.process.pid, "the watcher does not become idle")
            began = time.time()
            landed, odd = _land(parts, seconds, hostile, landing, watcher)
            watcher.wait(lambda: landed.keys() <= matched(home).keys(), "not all files are matched", PATIENCE_SECONDS)
            with suppress(PstError):  # what is wrong then is reported below
                watcher.wait(lambda: not find_wrong_verdicts(home, odd), "a verdict is wrong", PATIENCE_SECONDS)
            ends = matched(home)
        finally:
            watcher.stop()
    accepted = sum(file["accepted"] for file in read_files(home) if file["kind"] == "objects")
    wrong = find_wrong_verdicts(home, odd)
    return _Run(
        np.array([ends[name] - at for name, at in landed.items()]),
        _rounds(home, landed, watcher.restarted_at),
        max(ends[name] for name in landed) - began,
        accepted,
        sum(batch["matches"] for batch in read_batches(home) if batch["status"] == "done"),
        memory.tree_peak_mb,
        watcher.restarts,
        wrong,
        _erase(home, list(odd.values()), environment) if odd else [],
    )


def _rounds(home: Home, landed: Mapping[str, float], restarted_at: list[float]) -> np.ndarray:
    """Return how many rounds each good file has waited for, those that died among them: int64[n]."""
    began: dict[str, float] = {}
    of_ingest: dict[int, float] = {}
    for file in read_files(home):
        if (file["kind"], file["status"]) == ("objects", "done"):
            began[Path(file["path"]).name] = of_ingest[file["ingest_id"]] = file["started_at"].timestamp()
    rounds = np.sort([*of_ingest.values(), *restarted_at])
    landing = np.array(list(landed.values())) + MARGIN_SECONDS
    own = np.array([began[name] for name in landed])
    return np.maximum(np.searchsorted(rounds, own) - np.searchsorted(rounds, landing), 0)


def _erase(home: Home, odd: list[HostileFile], environment: dict[str, str]) -> list[str]:
    """Erase a row of each hostile file, by a command beside those in quarantine; return what is left of them."""
    ids = [f"hostile-{number}-good" for number in range(len(odd))]
    words = [word for one in ids for word in ("--object-id", one, "--subscription-id", one)]
    command = [*COMMAND, "erase", *words, "--home", home.path]
    ended = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    left = [] if ended.returncode == 0 else [f"erase has ended with {ended.returncode}: {ended.stderr[-500:]}"]
    for table, column in ((names.OBJECTS, "object_id"), (names.REQUESTS, "subscription_id")):
        stored = set(read_table(home.table(table), [column]).column(0).to_pylist())
        left += [f"{one} is left in {table}" for one in ids if one in stored]
    for entry in quarantine.read_needed_entries(home):
        content = Path(home.path, entry["copy"]).read_bytes()
        left += [f"{entry['copy']} is left, with {one}" for one in ids if one.encode() in content]
    return left


def _land(
    parts: list[Path], seconds: float, hostile: list[HostileFile], landing: Path, watcher: WatcherService
) -> tuple[dict[str, float], dict[str, HostileFile]]:
    """Put the files into the folder one by one; return the time of each good one, and the hostile ones, by name."""
    at = np.linspace(1, HOSTILE_SHARE * len(parts), len(hostile), dtype=int).tolist()
    waiting, killers = list(zip(at, hostile)), FRESH_KILLERS if hostile else 0
    landed: dict[str, float] = {}
    odd: dict[str, HostileFile] = {}
    began = time.monotonic()
    for ordinal, part in enumerate(parts):
        time.sleep(max(0.0, began + ordinal * seconds - time.monotonic()))
        os.link(part, landing / "objects" / part.name)
        landed[part.name] = time.time()
        restarts = watcher.restarts
        watcher.revive()
        due = [READER_DEATHS[0]] if watcher.restarts > restarts and killers else []
        killers -= len(due)
        while waiting and waiting[0][0] <= ordinal:
            due.append(waiting.pop(0)[1])
        for file in due:
            name = f"hostile-{len(odd):03}-{file.name}"
            ts = iso(START + dt.timedelta(seconds=STREAM_SECONDS * ordinal), "milliseconds")
            hidden = landing / file.kind / f".{name}"
            file.write(hidden, Rows(len(odd), str(ts)))
            hidden.rename(landing / file.kind / name)
            odd[name] = file
    return landed, odd
