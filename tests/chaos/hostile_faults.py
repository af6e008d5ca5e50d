"""Let hostile files and rows land beside good ones, and erase ids beside hostile files in quarantine."""

import gzip
import json
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pststream.state.home import Home as Tables
from tests.chaos.environment import ChaosEnvironment, Erased, done_files
from tests.chaos.plan import Episode
from tests.commands import KILLED, ROOT, run_in_new_python
from tests.killing_rows import KILLING_AT, run_beside
from tests.oracles.delivery import expected_messages
from tests.unit.pipeline.upkeep.test_erase import CLEAN, hostile_files
from tests.worlds import CITY, Row, moment

HOSTILE_READERS = str(ROOT / "tests" / "hostile_readers")
KILLER = "kill.csv"
"""A file of this name kills its reader if HOSTILE_READERS is on the path."""

FRESH = 3
"""Killers of which one lands before each start of a run."""

MOST_DEATHS = 40
FREE = 120 << 20
"""Bytes that are free when a file lands that does not fit."""

CITY_BOX = [CITY[0] - 0.5, CITY[1] - 0.5, CITY[0] + 0.5, CITY[1] + 0.5]


def hostile_row(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Let a row land that kills each batch with it, between files that do not; it must be set aside."""
    (fault,) = episode.faults
    name = f"kills-{len(chaos.killing)}"
    chaos.killing.append(name)
    if fault.detail == "request":
        rows = [_request(f"{name}-before"), _request(name) | {"created_at": KILLING_AT}, _request(f"{name}-after")]
    else:
        rows = [_object(chaos, f"{name}-before"), _object(chaos, name), _object(chaos, f"{name}-after")]
    deaths = 0
    with _local_engine():
        _land(chaos, [*chaos.next_files(2), _file(chaos, f"{fault.detail}s", name, rows), *chaos.next_files(2)])
        kind = "request" if fault.detail == "request" else name
        while (code := run_beside(kind, chaos.home, "run", chaos.landing)) == KILLED:
            deaths += 1
            assert deaths < MOST_DEATHS, f"{name} is not set aside"
    assert code == 0, Path(f"{chaos.home.path}-err").read_text("utf-8")[-3000:]
    chaos.injected[fault.kind] += deaths > 1


def killed_readers(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Let files land of which each kills its reader, a new one before each start; good files must get in soon."""
    (fault,) = episode.faults
    folder = chaos.landing / "objects" / f"killers-{time.monotonic_ns()}"
    good = chaos.next_files(4)
    _land(chaos, good)
    deaths = starts = 0
    waiting, code = {path.name for _, path in good}, KILLED
    while starts < FRESH or code != 0:
        if starts < FRESH:
            (folder / str(starts)).mkdir(parents=True)
            row = f"{folder.name}-{starts},{moment(0)},1,2,tea\n"
            (folder / str(starts) / KILLER).write_text("object_id,ts,lon,lat,text\n" + row, "utf-8")
        environment = {"PYTHONPATH": HOSTILE_READERS, "PSTSTREAM_ENGINE": "local"}
        ran = run_in_new_python("run", chaos.landing, "--home", chaos.home.path, environment=environment)
        code, starts, deaths = ran.code, starts + 1, deaths + (ran.code == KILLED)
        assert starts < MOST_DEATHS and code in (0, KILLED), ran.err[-3000:]
        waiting -= {Path(row["path"]).name for row in done_files(chaos)}
        if waiting:
            chaos.most_rounds = max(chaos.most_rounds, starts)
    held = {entry["path"] for entry in chaos.home.run("quarantine", "list")["quarantine"]}
    assert {str(folder / str(n) / KILLER) for n in range(FRESH)} <= held, held
    shutil.rmtree(folder)
    chaos.injected[fault.kind] += deaths > 0


def oversized(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Let a file land whose rows need more than half of the free disk; the others must get in at once."""
    (fault,) = episode.faults
    if not chaos.disk.mounted:
        return
    file = chaos.landing / "objects" / f"large-{time.monotonic_ns()}.csv.gz"
    row = f"{file.name}-{{}},{moment(0)},1,2,{'tea ' * 250}\n"
    content = "object_id,ts,lon,lat,text\n" + "".join(map(row.format, range(FREE // 1000)))
    with _local_engine():
        chaos.disk.leave(FREE)
        try:
            file.write_bytes(gzip.compress(content.encode(), 9))
            good = chaos.next_files(4)
            _land(chaos, good)
            ran = chaos.home.run("run", chaos.landing)
        finally:
            file.unlink()
            chaos.disk.clear(psutil.Process())
    left_out = [Path(one).name for one in ran["ingest"]["objects"]["passed_over"]]
    assert left_out == [file.name], ran
    missing = {path.name for _, path in good} - {Path(one["path"]).name for one in done_files(chaos)}
    chaos.most_rounds = max(chaos.most_rounds, 1 if missing else 0)
    chaos.injected[fault.kind] += 1


def killed_erasure(chaos: ChaosEnvironment, episode: Episode) -> None:
    """Erase an object and a subscription by a command that kills itself, beside hostile files in quarantine."""
    (fault,) = episode.faults
    rnd, name = random.Random(fault.seed), f"gone-{len(chaos.erased)}"
    folder = chaos.landing / "objects" / name
    folder.mkdir()
    for path, content in hostile_files(chaos.folder, name).items():
        if not path.endswith(".jsonl"):  # whose rows are rejects
            (folder / path).write_bytes(content)
    more = rnd.choice(({}, {"kind": "knn", "k": 5, "point": {"lon": CITY[0], "lat": CITY[1]}, "bbox": None}))
    asked = {name: value for name, value in (_request(name) | more).items() if value is not None}
    # Without words it is in no report, which an erasure does not count again.
    thing = _object(chaos, name) | {"text": ""}
    with _local_engine():
        _land(chaos, [_file(chaos, "requests", name, [asked]), _file(chaos, "objects", name, [thing])])
        chaos.home.run("run", chaos.landing)
        chaos.allowed |= {message["id"]: message for message in expected_messages(Tables(chaos.home.path))}
        words = ("erase", "--object-id", name, "--subscription-id", name)
        environment = {"PYTHONPATH": HOSTILE_READERS, "PSTSTREAM_CRASH_AT": fault.detail}
        killed = run_in_new_python(*words, "--home", chaos.home.path, environment=environment)
        assert killed.code in (0, KILLED), killed.err
        chaos.injected[fault.kind] += killed.code == KILLED
        environment.pop("PSTSTREAM_CRASH_AT")
        erased = run_in_new_python(*words, "--home", chaos.home.path, environment=environment)
        assert erased.code == 0, erased.err
        last = max(row["file_seq"] for row in done_files(chaos))
        chaos.erased.append(Erased(last, name))
        held = [Path(entry["path"]) for entry in chaos.home.run("quarantine", "list")["quarantine"]]
        assert {path.name for path in held if path.parent == folder} <= CLEAN, held
        assert not [path for path in held if path.name == KILLER], held
        _land(chaos, chaos.next_files(2))
        chaos.home.run("run", chaos.landing)


def _file(chaos: ChaosEnvironment, kind: str, name: str, rows: list[Row]) -> tuple[str, Path]:
    """Write a file that is no file of the world, and count it among those that land."""
    path = chaos.folder / f"{name}-{kind}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    chaos.others.append((kind, path))
    return kind, path


def _land(chaos: ChaosEnvironment, files: Sequence[tuple[str, Path]]) -> None:
    for kind, path in files:
        shutil.copyfile(path, chaos.landing / kind / path.name)


@contextmanager
def _local_engine() -> Iterator[None]:
    """Run the commands of a block in processes that end with their tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSTSTREAM_ENGINE", "local")
        yield


def _object(chaos: ChaosEnvironment, name: str) -> Row:
    """Return an object that is accepted, and moves no watermark."""
    ts = chaos.home.run("status")["watermark"] or moment(0)
    return {"object_id": name, "ts": ts, "lon": CITY[0], "lat": CITY[1], "text": "tea"}


def _request(name: str) -> Row:
    head = {"op": "insert", "subscription_id": name, "keywords": "*", "created_at": moment(0)}
    return head | {"bbox": CITY_BOX}
