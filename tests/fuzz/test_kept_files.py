"""Files stored beside the tables, with random content, are read, refused or ignored, and never cause a crash."""

import datetime as dt
import json
import random
from dataclasses import fields
from pathlib import Path

import numpy as np

from pststream.base.errors import UsageError
from pststream.pipeline.replan.proposal_file import Decision, Proposal, read_proposal, write_proposal
from pststream.planning.balancing.contract import Adjustment
from pststream.planning.load_model import WorkerLoads
from pststream.plans.plan import DispatchGrid, space_plan
from pststream.plans.plan_moves import Move
from pststream.reports.reading.home_figures import read_watcher, render_watcher
from pststream.state import fetched_files
from pststream.state.home import Home
from pststream.storage.array_cache import TornFileError, map_arrays, write_arrays
from tests.fuzz.cases import cases, trying
from tests.fuzz.mutations import mutated
from tests.fuzz.values import any_value


def test_proposals(tmp_path: Path) -> None:
    whole, changed = tmp_path / "whole.npz", tmp_path / "changed.npz"
    plan = space_plan("grid", DispatchGrid(0, 0, 9, 9, 3, 3), np.arange(9), np.arange(9) % 2, 2)
    loads = WorkerLoads(*(np.arange(9.0 if "unit" in field.name else 2.0) for field in fields(WorkerLoads)))
    moves = [Move(0, 1, np.array([2, 4])), Move(1, 0, np.array([3]), np.array([7, 8]))]
    adjustment = Adjustment(plan, moves, ["gr", "split"], loads, loads)
    write_proposal(whole, Proposal("local", 3, "digest", Decision("why", 1.5, adjustment)))
    read = 0
    for number, rnd in cases("proposals", 400):
        changed.write_bytes(mutated(rnd, whole.read_bytes()))
        with trying(("proposals", number)):
            try:
                read += read_proposal(changed).plan_version == 3
            except UsageError as error:
                assert str(changed) in str(error)
    assert read


def test_fetched_file_hashes(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    fetched_files.write_hash_cache(home, {"s3://bucket/a": ("etag", 3, "hash"), "/in/b": ("1-2-3", 4, "hash")})
    path = home.work_folder / "spool" / "learnt.json"
    whole = path.read_bytes()
    for number, rnd in cases("learnt", 400):
        path.write_bytes(changed_json(rnd, whole))
        with trying(("learnt", number)):
            for address, (tag, size, what) in fetched_files.read_hash_cache(home).items():
                assert isinstance(address + tag + what, str) and isinstance(size, int)


def test_heartbeats(tmp_path: Path) -> None:
    home = Home(tmp_path)
    heartbeat: dict[str, object] = {
        "process": 1,
        "state": "idle",
        "at": "2026-01-01T00:00:00.000Z",
        "since": "2026-01-01T00:00:00.000Z",
    }
    heartbeat |= {"lag_seconds": 0.5, "waiting_files": 0, "batches": 3, "failures": 0, "error": None}
    whole, now, readable = json.dumps(heartbeat).encode(), dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC), 0
    for number, rnd in cases("heartbeats", 400):
        (tmp_path / "watch.json").write_bytes(changed_json(rnd, whole))
        with trying(("heartbeats", number)):
            result = read_watcher(home, now)
            assert render_watcher(result) or result is None
            readable += result is not None
    assert readable


def changed_json(rnd: random.Random, content: bytes) -> bytes:
    """Mutate the bytes, or replace the values of known keys."""
    if rnd.randrange(2):
        return mutated(rnd, content)
    document = json.loads(content)
    document[rnd.choice(list(document))] = any_value(rnd)
    return json.dumps(document, default=str).encode()


def test_arrays(tmp_path: Path) -> None:
    """A file that was cut, or has another length or header, is torn; other array contents are not checked."""
    whole, changed = tmp_path / "whole", tmp_path / "changed"
    write_arrays(whole, {"a": np.arange(50), "b": np.ones((3, 4), np.float32)})
    for number, rnd in cases("arrays", 400):
        content = whole.read_bytes()
        changed.write_bytes(content[: rnd.randrange(len(content))] + b"x" * (rnd.randrange(3) * 8))
        with trying(("arrays", number)):
            try:
                map_arrays(changed)
            except TornFileError:
                continue
            assert changed.stat().st_size == len(content)
