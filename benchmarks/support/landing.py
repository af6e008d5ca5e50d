"""Fill a benchmark's home from files, and let small files of objects land at an even rate for a watcher."""

import time
from pathlib import Path

from pststream.base.progress import Progress
from pststream.pipeline.batch.micro_batch import match
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.workloads.draw_subscriptions import SubscriptionStyle
from pststream.workloads.generate_files import write_objects, write_requests
from pststream.workloads.object_sample import generate_sample
from pststream.workloads.places import Places

SECONDS = 0.5
"""Seconds from one file to the next."""

FIRST_OBJECTS = 20_000
"""Objects that the first plan is made from."""


def fill_home(
    home: Home,
    settings: Settings,
    folder: Path,
    subscriptions: int,
    seed: int,
    style: SubscriptionStyle,
    progress: Progress,
    places: Places | None = None,
) -> None:
    """Ingest subscriptions and the first objects from files in a folder, plan, and index them; places: of objects."""
    home.init()
    objects = generate_sample(seed, places=places)
    write_requests(folder / "requests.parquet", subscriptions, seed, style=style, objects=objects)
    write_objects(folder / "first.parquet", FIRST_OBJECTS, seed, places=places, id_prefix="first")
    for kind, file in (("requests", "requests"), ("objects", "first")):
        ingest(home, settings, kind, [f"{folder}/{file}.parquet"], ReaderOptions(), progress)
        (folder / f"{file}.parquet").unlink()
    match(home, settings, progress=progress)


def write_parts(folder: Path, files: int, objects: int, seed: int, places: Places | None = None) -> list[Path]:
    """Write files of so many objects, to be moved into the landing folder later; their times follow the first file's.

    places  of the objects; None: the cities of the world
    """
    write_objects(
        folder / "all.jsonl",
        files * objects,
        seed + 1,
        places=places,
        start="2026-01-02T00:00:00Z",
        seconds_per_object=0.001,
    )
    parts = []
    with open(folder / "all.jsonl", encoding="utf-8") as lines:
        for ordinal in range(files):
            part = folder / f"part-{ordinal:05}.jsonl"
            part.write_text("".join(next(lines) for _ in range(objects)), "utf-8")
            parts.append(part)
    return parts


def land(parts: list[Path], landing: Path, seconds: float = SECONDS) -> dict[str, float]:
    """Move the files into the folder one by one, at an even rate; return the time of each (seconds since 1970)."""
    landed, began = {}, time.monotonic()
    for ordinal, part in enumerate(parts):
        time.sleep(max(0.0, began + ordinal * seconds - time.monotonic()))
        part.rename(landing / part.name)
        landed[part.name] = time.time()
    return landed
