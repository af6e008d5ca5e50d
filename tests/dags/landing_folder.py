"""Write a small landing folder, with the matches that it must give."""

import json
from pathlib import Path

OBJECTS = """\
object_id,ts,lon,lat,text
o1,2026-03-01T12:00:00Z,0.5,0.5,free coffee downtown
o2,2026-03-01T12:01:00Z,0.5,0.6,cheap coffee
o3,2026-03-01T12:02:00Z,5.0,5.0,free coffee far away
o4,2026-03-01T12:03:00Z,0.4,0.5,house on fire
o5,2026-03-01T12:04:00Z,0.5,0.5,just coffee
pole,2026-03-01T12:05:00Z,0.5,91.0,coffee beyond the pole
"""
REQUESTS = [
    {"subscription_id": "s1", "keywords": "coffee AND (free OR cheap)", "bbox": [0, 0, 1, 1]},
    {"subscription_id": "s2", "keywords": "fire", "circle": {"lon": 0.4, "lat": 0.5, "radius_m": 1000}},
    {"subscription_id": "s3", "keywords": "coffee", "bbox": [4, 4, 6, 6]},
]
PAIRS = [("o1", "s1"), ("o2", "s1"), ("o3", "s3"), ("o4", "s2")]
ACCEPTED, REJECTED = 5 + 3, 1


def fill_landing(folder: Path) -> Path:
    """Write the files; return the folder."""
    (folder / "objects").mkdir(parents=True)
    (folder / "requests").mkdir()
    (folder / "objects" / "posts.csv").write_text(OBJECTS, "utf-8")
    inserts = [{"op": "insert", "created_at": "2026-01-01T00:00:00Z"} | request for request in REQUESTS]
    lines = "".join(json.dumps(insert) + "\n" for insert in inserts)
    (folder / "requests" / "subscribers.jsonl").write_text(lines, "utf-8")
    return folder
