"""Generate simulated days of a drifting stream: each day most objects and subscribers are in another quarter."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.oracles.twin_rows import LogFile

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
OBJECTS, REQUESTS = 20_000, 1_200
"""Objects of half a day: with fewer, indexing new subscriptions would be most of the work of a worker."""

CROWD = 0.8
WORDS = [f"w{number}" for number in range(60)]
QUARTERS = ((0.0, 0.0), (20.0, 10.0), (20.0, 0.0), (0.0, 10.0))
WIDE, HIGH = 20.0, 10.0


def moment(day: int, hour: int) -> datetime:
    """Format a time of the simulation."""
    return FIRST + timedelta(days=day, hours=hour)


def land(folder: Path, day: int, hour: int) -> list[LogFile]:
    """Write the files of half a day into the landing folder; the same files for the same half day."""
    rnd = random.Random(100 * day + hour)
    stem = f"{day}-{hour:02}"
    objects, requests = folder / "objects" / f"{stem}.jsonl", folder / "requests" / f"{stem}.jsonl"
    for file, rows in ((objects, _objects(rnd, day, hour)), (requests, _requests(rnd, day, hour))):
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        part.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        part.rename(file)
    return [LogFile("objects", objects), LogFile("requests", requests)]


def _objects(rnd: random.Random, day: int, hour: int) -> list[dict[str, object]]:
    rows = []
    for number in range(OBJECTS):
        lon, lat = _place(rnd, day)
        ts = moment(day, hour) + timedelta(seconds=number)
        words = " ".join(rnd.choices(WORDS, range(len(WORDS), 0, -1), k=4))
        row = {"object_id": f"o{day}-{hour}-{number}", "ts": ts.isoformat(), "lon": lon, "lat": lat}
        rows.append({**row, "text": words})
    return rows


def _requests(rnd: random.Random, day: int, hour: int) -> list[dict[str, object]]:
    """Make insertions; in the morning also deletions of some of the previous morning, some of which have been moved."""
    rows: list[dict[str, object]] = []
    at = moment(day, hour).isoformat()
    for number in range(REQUESTS):
        lon, lat = _place(rnd, day)
        one, two = rnd.sample(WORDS, 2)
        keywords = rnd.choice((f"{one} AND {two}", f"{one} OR {two}", one))
        box = [lon, lat, lon + rnd.choice((0.3, 1.0)), lat + rnd.choice((0.3, 1.0))]
        row = {"op": "insert", "subscription_id": f"s{day}-{hour}-{number}", "keywords": keywords, "bbox": box}
        rows.append({**row, "created_at": at})
    if day and hour == 6:
        gone = rnd.sample(range(REQUESTS), REQUESTS // 5)
        rows += [{"op": "delete", "subscription_id": f"s{day - 1}-{hour}-{number}", "at": at} for number in gone]
    return rows


def _place(rnd: random.Random, day: int) -> tuple[float, float]:
    """Draw a point in the crowded quarter of the day, or anywhere."""
    west, south = QUARTERS[day % 4] if rnd.random() < CROWD else rnd.choice(QUARTERS)
    return round(west + rnd.random() * (WIDE - 1.0), 6), round(south + rnd.random() * (HIGH - 1.0), 6)
