"""Run all commands of `points` on one home, keep it as it is before each, and do them again on copies with kills."""

import json
import os
import re
import shutil
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.state.home import Home as State
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import read_table
from pststream.tables.open_tables import open_table
from tests import worlds
from tests.commands import Home
from tests.crash.points import STEPS, Step
from tests.damage import allow_changes
from tests.erased_homes import OBJECT, SUBSCRIPTION, places_with, raw_files_with
from tests.receiver import SECRET, Receiver
from tests.standing_worlds import nearest, reported, scored, standing_home, wordless, write_standing_world
from tests.unbalanced_homes import RESTLESS, write_uneven_loads

KINDS = (nearest, scored, reported, wordless)
ANYWHERE = {"bbox": [-180.0, -90.0, 180.0, 90.0]}
KNN = {"kind": "knn", "point": {"lon": 0.0, "lat": 0.0}, "k": 2}
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"question_id": "near", **KNN},
    {"question_id": "bad", **KNN, "k": -1},
    {"question_id": "box", "keywords": "coffee", **ANYWHERE},
    {"question_id": "words", "kind": "frequent_terms", **ANYWHERE, "k": 3},
    {"question_id": "best", **KNN, "kind": "topk", "keywords": "tea", "alpha": 0.5},
)

TIMED = {
    *("started_at", "finished_at", "written_at", "checked_at", "erased_at", "files_until", "created_at", "decided_at"),
    *("seconds", "seconds_by_step", "cpu_seconds", "withdrawal_id", "erasure_id"),
}
"""Columns that say when something was done, and how long it took, which no two runs have in common; and the number of
a withdrawal or an erasure, which a killed one uses up.
"""

REPEATED = (names.QUALITY_RESULTS, names.DEAD_LETTERS, names.DELIVERIES, names.ERASURES, names.WITHDRAWALS)
"""Tables to which a command that is run again may write the same rows."""

SAVED = {"delivered", "refused", "failures"}
"""Columns of `deliveries` that count since the row before; only the rows of whole batches are compared."""

PART = re.compile("[^']*/retries/part-[0-9a-f]{32}")
"""The path of a file that a retry has written, in the home that it was written in."""

Rows = dict[str, Counter[str]]


def write_files(folder: Path) -> None:
    """Write four files of each kind, an object of a wrong clock, a bad file, and a landing folder with questions."""
    write_standing_world(folder, 17, 4, 100, 40, KINDS)
    thing = {"object_id": OBJECT, "ts": worlds.moment(20), "lon": 1.0, "lat": 1.0, "text": "free coffee zqxjword tea"}
    asked = {"op": "insert", "subscription_id": SUBSCRIPTION, "keywords": "coffee OR zqxjterm", **ANYWHERE}
    ahead = {**thing, "object_id": "ahead", "ts": worlds.moment(3000)}
    _append(folder / "objects-00.jsonl", thing)
    _append(folder / "requests-00.jsonl", {**asked, "created_at": worlds.moment(0)})
    _append(folder / "ahead.jsonl", ahead)
    rows = [{**ahead, "object_id": f"bad-{number}", "lon": None} for number in range(20)]
    worlds.write_rows(folder / "bad.csv", rows)
    for name in ("objects", "requests", "questions"):
        (folder / "landing" / name).mkdir(parents=True)
    _append(folder / "landing" / "questions" / "asked.jsonl", *QUESTIONS)


def _append(path: Path, *rows: dict[str, Any]) -> None:
    with open(path, "a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


class Script:
    """The commands on one home, which nobody disturbs: copies of the home before each, and its rows after each."""

    def __init__(self, folder: Path, receiver: Receiver, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.files, self.receiver = folder, folder / "files", receiver
        self._rows: list[Rows] = []
        write_files(self.files)
        patch.setenv("PSTSTREAM_SINK_HOOK_SECRET", SECRET)
        patch.setenv("PSTSTREAM_SINK_HOOK_TARGET", receiver.url)
        place = folder / "undisturbed"
        place.mkdir()
        world = worlds.WrittenWorld([], [], worlds.LATENESS_STEPS * 600)
        settings = {"planner": "keyword_hash", "merge_files": 3, "gate_min_rows": 20, "cache_dir": f"{place}/cache"}
        self.home = standing_home(place / "home", world, **settings, **RESTLESS)
        self.home.add_sink("files", kind="file", target=f"{place}/sent", messages=20)
        self.home.add_sink("hook", kind="webhook", networks="127.0.0.0/8", messages=20, tries=3)
        for command in ("ingest requests {files}/requests-00.jsonl", "ingest objects {files}/objects-00.jsonl"):
            self.run(self.home, command)
        self.home.match()
        self.home.run("maintain")

    def rows_after(self, number: int) -> Rows:
        """Return the rows after a step; the steps up to it are run when they are needed first."""
        while len(self._rows) <= number:
            step = STEPS[len(self._rows)]
            for command in step.before:
                self.run(self.home, command)
            self.prepare(step)
            _copy(self.home.path.parent, self.folder / f"before-{len(self._rows)}")
            self.run(self.home, step.command)
            self.finish(self.home, step)
            self._rows.append(rows_of(self.home.path.parent))
        return self._rows[number]

    def run(self, home: Home, command: str) -> None:
        """Run a command of a home."""
        if command == "uneven loads":
            write_uneven_loads(home)
        elif command == "old batches":
            batches = allow_changes(State(home.path).table(names.BATCHES))
            batches.update({"started_at": "started_at - interval '3 days'"})
        else:
            home.run(*self.words(home, command))

    def words(self, home: Home, command: str) -> list[str]:
        """Return the words of a command."""
        filled = {"files": self.files, "out": home.path.with_name("backup")}
        return [word.format(**filled, object=OBJECT, subscription=SUBSCRIPTION) for word in command.split()]

    def copy(self, number: int, place: Path) -> Home:
        """Return a copy of the home before a step, with a cache and a sink of its own."""
        _copy(self.folder / f"before-{number}", place)
        settings = place / "home" / "pststream.toml"
        settings.write_text(settings.read_text().replace(str(self.folder / "undisturbed"), str(place)))
        return Home(place / "home")

    def prepare(self, step: Step) -> None:
        """Set what is outside of the home as it is before a step."""
        self.receiver.taken.clear()
        refused = step.name == "deliver"
        self.receiver.refuses = _Tenth() if refused else set()
        shutil.rmtree(self.files / "landing" / "answers", ignore_errors=True)

    def run_again(self, home: Home, step: Step) -> None:
        """Run the command of a step after it was killed."""
        copy = home.path.with_name("backup")
        if step.name == "backup" and copy.exists():  # half a backup is no home, and is not overwritten
            Home(copy).run("status", code=2)
            home.run(*self.words(home, step.command), code=2)
            shutil.rmtree(copy)
        self.run(home, step.command)

    def finish(self, home: Home, step: Step) -> None:
        """Put what a step has made beside the tables to where `rows_of` finds it."""
        place = home.path.parent
        if step.name == "backup":
            shutil.rmtree(home.path)
            (place / "backup").rename(home.path)
        if step.name == "questions":
            (self.files / "landing" / "answers").rename(place / "answers")
        if step.name in ("deliver", "replay"):
            taken = {message["id"]: json.dumps(message) + "\n" for message in self.receiver.taken}
            (place / "sent" / f"{step.name}.jsonl").write_text("".join(taken.values()), "utf-8")
        if step.name == "erase":
            assert places_with(home.path) == raw_files_with(home.path) == []


class _Tenth(set[str]):
    """The ids of about every tenth message."""

    def __contains__(self, name: object) -> bool:
        return zlib.crc32(str(name).encode()) % 10 == 0


def _copy(place: Path, target: Path) -> None:
    """Copy a folder with a home; files of tables are linked, since they are replaced and never changed."""
    tables = str(place / "home" / "tables")

    def copy(source: str, new: str) -> object:
        return os.link(source, new) if source.startswith(tables) else shutil.copyfile(source, new)

    shutil.copytree(place, target, copy_function=copy)


def rows_of(place: Path) -> Rows:
    """Count the rows of a home's tables, the messages sent and the rows of answers, without times and its place."""
    counted = {name: _count(read_table(State(place / "home").table(name)), str(place)) for name in TABLES}
    for name in REPEATED:
        counted[name] = Counter(set(counted[name]))
    for name in TABLES:
        counted[name][str(sorted(open_table(State(place / "home").table(name)).metadata().configuration.items()))] += 1
    sent = [file.read_text("utf-8").splitlines() for file in (place / "sent").glob("[!.]*.jsonl")]
    counted["messages"] = Counter(line for lines in sent for line in lines)
    for file in (place / "answers").glob("*.parquet"):
        counted["answers"] = _count(pq.read_table(file), str(place))
    return counted


def _count(rows: pa.Table, place: str) -> Counter[str]:
    if SAVED.issubset(rows.column_names):
        rows = rows.filter(rows["complete"])
    kept = rows.drop_columns([name for name in rows.column_names if name in TIMED | SAVED])
    texts = (str(row).replace(place, "") for row in kept.to_pylist())
    return Counter(PART.sub("part", text) if "/retries/" in text else text for text in texts)
