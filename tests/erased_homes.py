"""Make a home with rows that name a marker, refuse its messages, and look for the marker in every byte."""

import datetime as dt
import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as pds
import pytest

from pststream.pipeline.delivery.outbox import Limit, Outbox
from pststream.pipeline.upkeep import old_rows
from pststream.state.deliveries import save_dead_letters
from pststream.state.home import Home as State
from pststream.state.tables import TABLES
from pststream.tables.open_tables import open_table
from tests import worlds
from tests.commands import Home, new_home
from tests.worlds import World, WrittenWorld


def set_clock(monkeypatch: pytest.MonkeyPatch, now: dt.datetime, before: dt.datetime | None = None) -> None:
    """Set the clock by which `maintain` removes rows, and what it said at the last `maintain`, if not the same."""
    monkeypatch.setattr(old_rows, "utc_now", lambda: now)
    monkeypatch.setattr(old_rows, "last_clock", lambda *others: before or now)


MARKER = "zqxj"
OBJECT, SUBSCRIPTION = f"object {MARKER}/7", f"subscription {MARKER}"
ANYWHERE = {"bbox": [-180.0, -90.0, 180.0, 90.0]}


def marked_world(folder: Path, seed: int) -> WrittenWorld:
    """Write a world whose files of the first half have an object and a subscription with the marker.

    Another subscription has reports, so that `answer_log` shows a word with the marker.
    """
    world = worlds.random_world(seed, objects=240, requests=160, files=6)
    things = {"object_id": OBJECT, "lon": 1.0, "lat": 1.0, "text": f"free coffee for the {MARKER}word tea"}
    things |= {"phone": f"+00 {MARKER}"}
    asked = {"op": "insert", "subscription_id": SUBSCRIPTION, "keywords": f"coffee OR {MARKER}term", **ANYWHERE}
    asked |= {"created_at": worlds.moment(0), "payload": {"user": MARKER}}
    for rows in world.object_files[:2]:
        rows.insert(len(rows) // 2, things | {"ts": rows[len(rows) // 2]["ts"] or worlds.moment(60)})
    for number, rows in enumerate(world.request_files[:2]):
        rows.insert(0, asked | {"created_at": worlds.moment(number)})
    reports = {"op": "insert", "subscription_id": "reports", "kind": "frequent_terms", "created_at": worlds.moment(0)}
    world.request_files[0].append(reports | ANYWHERE | {"k": 50, "window": "1d", "step": "6h"})
    folder.mkdir()
    return worlds.write_world(folder, world, seed)


def marked_home(path: Path, world: WrittenWorld, **settings: Any) -> Home:
    """Make a home that has matched the first half of a world, with rejects of the marked rows."""
    home = new_home(
        path,
        engine="local",
        planner="frequency",
        workers=3,
        lateness_seconds=world.lateness_seconds,
        cache_dir=str(path.parent / "cache"),
        gate_bad_share=1.0,
        **settings,
    )
    broken = path.parent / f"{path.name}-broken.jsonl"
    broken.write_text(f'{{"object_id": "{OBJECT}", "text": "…\n{{"object_id": "o1x\n')
    for number in range(3):
        home.ingest("requests", world.requests[number : number + 1])
        home.ingest("objects", world.objects[number : number + 1])
        home.match()
    home.ingest("objects", [broken])
    return home


def twin_of(home: Home) -> Home:
    """Copy a home, as a twin without what follows, with a cache of its own."""
    twin = Home(home.path.with_name("twin"))
    shutil.copytree(home.path, twin.path)
    twin.set(cache_dir=str(home.path.with_name("cache-of-the-twin")))
    return twin


def finish_world(home: Home, world: WrittenWorld) -> None:
    """Ingest and match the rest of a world."""
    home.ingest("objects", world.objects[3:5])
    home.match()
    home.ingest("requests", world.requests[3:])
    home.ingest("objects", world.objects[5:])
    home.match()


def refuse_messages(home: Home, sink: str = "webhook") -> int:
    """Store the messages of all batches as dead letters, single ones and digests; return how many."""
    state, letters = State(home.path), []
    outbox = Outbox(state)
    for batch in outbox.batches.tolist():
        for limit in (Limit(), Limit(1, 3600)):
            letters += [
                {
                    "sink": sink, "message_id": one.id, "batch_id": batch, "owner": one.owner,
                    "subscription_id": one.subscription_id, "kind": one.kind, "reason": "no",
                    "message": one.body.decode("ascii"),
                }
                for one in outbox.messages(batch, limit)
            ]  # fmt: skip
    save_dead_letters(state, letters)
    return len(letters)


Pair = tuple[str, int, str]


def without(pairs: list[Pair], objects: set[str], subscriptions: set[str]) -> list[Pair]:
    """Return the pairs of other objects and subscriptions."""
    return [(o, ts, s) for o, ts, s in pairs if o not in objects and s not in subscriptions]


def random_ids(home: Home, world: World, seed: int) -> tuple[set[str], set[str]]:
    """Draw ids to erase, most of which the home has."""
    rnd = random.Random(seed)
    rows = [row for file in (*world.object_files, *world.request_files) for row in file]
    objects = sorted({row["object_id"] for row in rows if row.get("object_id")})
    subscriptions = sorted({row["subscription_id"] for row in rows if row.get("subscription_id")})
    return {*rnd.sample(objects, 12), "unknown"}, set(rnd.sample(subscriptions, 5))


def places_with(home: Path, marker: str = MARKER, skip: tuple[str, ...] = ()) -> list[str]:
    """Return where the marker is: rows of the tables at their current version, and all files but the tables' own."""
    return sorted({*_tables_with(home, marker), *_files_with(home, marker, (*skip, "tables"))})


def raw_files_with(home: Path, marker: str = MARKER) -> list[str]:
    """Return the files that have the marker; those of the tables too, and their logs. Parquet files are decoded."""
    return list(_files_with(home, marker, ()))


def _tables_with(home: Path, marker: str) -> Iterator[str]:
    for name in TABLES:
        if marker in _texts_of(open_table(State(home).table(name)).to_pyarrow_dataset()):
            yield f"table {name}"


def _files_with(folder: Path, marker: str, skip: tuple[str, ...]) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if not path.is_file() or relative.parts[0] in skip:
            continue
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += _texts_of(pds.dataset(path)).encode()
        if marker.encode() in content:
            yield str(relative)


def _texts_of(data: pds.Dataset) -> str:
    """Return the rows as JSON, without the columns that have no text: numbers have no marker."""
    columns = [field.name for field in data.schema if re.search("string|binary", str(field.type))]
    return json.dumps(data.to_table(columns).to_pylist(), default=str, ensure_ascii=False)
