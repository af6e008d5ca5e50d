"""Which planner is best for a home: each plans the same sample, and the real job runs under its plan.

Nothing in the home changes: each planner gets a scratch home with the newest objects and all requests of the log, its
data files linked, not copied; and its index is built and its objects are matched there by the same jobs as ever. So the
figures are measured, and the model is judged by them.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pststream import names
from pststream.errors import PstError, UsageError
from pststream.pipeline.match import match
from pststream.pipeline.plan import new_plan
from pststream.routing.dispatch import DispatchIndex
from pststream.settings import Settings
from pststream.state import control
from pststream.state.data_files import commit, data_files
from pststream.state.home import Home
from pststream.state.ledger import Ledger, key
from pststream.state.plans import load_plan, plan_rows

Progress = Callable[[str], None]


def compare(
    home: Home,
    settings: Settings,
    planners: Sequence[str] = names.PLANNERS,
    objects: int = 1_000_000,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Plan and match with each planner; `objects`: about so many of the newest, in whole files.

    Returns {"plans": [figures of each, the best throughput first], "objects", "requests", "matches", "workers"}.
    Raises UsageError for a home without objects or requests, PstError if two planners do not find the same matches.
    """
    home.check()
    with home.locked():
        ledger = Ledger(home)
        if not ledger.done("objects") or not ledger.done("requests"):
            raise UsageError(f"home {home.path} holds no objects or no requests", "ingest some first")
        progress("warming up")
        _measured(home, settings, planners[0], objects)
        figures = []
        for planner in planners:
            progress(f"{planner}: planning and matching")
            figures.append(_measured(home, settings, planner, objects))
            progress(f"{planner}: {figures[-1]['throughput']:,.0f} tuples/s")
    found = {f["planner"]: f["matches"] for f in figures}
    if len(set(found.values())) > 1:
        raise PstError(f"planners found different numbers of matches: {found}", "please report this: it is a fault")
    told = figures[0]
    return {
        "workers": settings.workers,
        **{name: told[name] for name in ("objects", "requests", "matches")},
        "plans": sorted(figures, key=lambda f: -f["throughput"]),
    }


def _measured(home: Home, settings: Settings, planner: str, objects: int) -> dict[str, Any]:
    root = f"{home.path}/compare"
    shutil.rmtree(root, ignore_errors=True)
    Path(root).mkdir()
    # Python workers live on between planners, and know plans and segments by the paths of their homes.
    folder = tempfile.mkdtemp(dir=root)
    try:
        scratch = Home(f"{folder}/home")
        scratch.init()
        _link_logs(home, scratch, objects)
        chosen = replace(settings, planner=planner, cache_dir=f"{folder}/cache")
        began = time.perf_counter()
        with scratch.locked():
            new_plan(scratch, chosen)
        planned = time.perf_counter() - began
        match(scratch, chosen, max_objects=1 << 40, one=True)
        return _figures(scratch, planner, planned)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _link_logs(home: Home, scratch: Home, objects: int) -> None:
    """Both logs in the scratch home: all files of requests, and the newest of objects until there are enough."""
    ledger = Ledger(home)
    taken: list[dict[str, Any]] = []
    for file in reversed(ledger.done("objects")):
        if sum(f["accepted"] for f in taken) < objects:
            taken.append(file)
    first = key(min(f["file_seq"] for f in taken), 0)
    for name in (names.OBJECTS, names.REQUESTS):
        files = data_files(home, name)
        if name == names.OBJECTS:
            files = [f for f in files if f.may_hold("object_key", first, names.NEVER_US)]
        for file in files:
            target = Path(scratch.table(name)) / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(f"{home.table(name)}/{file.path}", target)
        commit(scratch, name, files, application="compare", transaction=1)
    control.append(scratch, names.FILES, [*taken, *ledger.done("requests")])


def _figures(home: Home, planner: str, planned: float) -> dict[str, Any]:
    """What CONTRACT says, with loads in CPU seconds as measured; `copies` of an object that was not discarded."""
    (batch,) = Ledger(home).batches
    (row,) = plan_rows(home)
    plan = load_plan(home, 1)
    loads = control.read(home, names.UNIT_LOADS, filters=[("unit", "=", -1)]).sort_by("worker")
    measured = np.zeros(row["workers"])
    measured[loads.column("worker").to_numpy()] = loads.column("cpu_seconds").to_numpy()
    predicted = np.array(row["worker_loads"])
    sent, stored = (int(loads.column(name).to_numpy().sum()) for name in ("objects", "subscriptions"))
    tuples = batch["objects"] + batch["requests"]
    kept = batch["objects"] - batch["discarded"]
    seconds = json.loads(batch["seconds"])
    dispatch = DispatchIndex(plan)
    return {
        "planner": planner,
        "units": plan.units,
        "seconds": round(planned, 2),
        "objects": batch["objects"],
        "requests": batch["requests"],
        "matches": batch["matches"],
        "throughput": round(tuples / max(measured.max(), 1e-9)),
        "load_total": round(float(measured.sum()), 3),
        "max_seconds": round(float(measured.max()), 3),
        "imbalance": round(float(measured.max() / max(measured.min(), 1e-9)), 3),
        "worker_seconds": [round(float(s), 4) for s in measured],
        "objects_sent": sent,
        "copies": round(sent / kept, 3) if kept else 0.0,
        "subscriptions_stored": stored,
        "discarded": batch["discarded"],
        "dispatch_seconds": seconds["dispatch_cpu"],
        "dispatch_bytes": dispatch.nbytes,
        "model_total": round(float(predicted.sum()), 3),
        "model_max": round(float(predicted.max()), 3),
        "model_seconds": [round(float(s), 4) for s in predicted],
        "model_correlation": _correlation(predicted, measured),
    }


def _correlation(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Pearson's, over workers; None where either does not vary."""
    if len(measured) < 2 or predicted.std() == 0 or measured.std() == 0:
        return None
    return round(float(np.corrcoef(predicted, measured)[0, 1]), 3)
