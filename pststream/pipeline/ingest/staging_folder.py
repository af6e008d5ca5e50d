"""The folder of what an ingest has read: kept from when the ledger names its files until they are done.

So an ingest that was killed can be finished even if somebody has changed the files that it was read from.
"""

import json
from typing import Any

from pststream.pipeline.ingest.stage_files import Staged
from pststream.state.home import Home
from pststream.storage.arrow_files import sizes

STAGING = "staging"
_KEPT = f"{STAGING}/staged.json"
_FIELDS = ("file_seq", "path", "rows", "last_row", "max_time")


def folder_of(home: Home) -> str:
    """Where tasks write what they read, and judge."""
    return f"{home.path}/{STAGING}"


def clear(home: Home) -> None:
    """Remove all of it."""
    home.files.delete(home.files.names(STAGING))


def keep(home: Home, files: list[dict[str, Any]], staged: list[Staged]) -> None:
    """Remember what was read of these files (rows of the ledger)."""
    rows = [{name: getattr(one, name) for name in _FIELDS} for one in staged]
    held = {"of": _hashes(files), "staged": rows, "bytes": _bytes(staged)}
    home.files.write(_KEPT, json.dumps(held).encode())


def kept(home: Home, files: list[dict[str, Any]]) -> list[Staged] | None:
    """What was read of just these files, if all of it is there, byte for byte as many."""
    try:
        found = json.loads(home.files.read(_KEPT))
    except (FileNotFoundError, ValueError):
        return None
    staged = [Staged(**one) for one in found["staged"]]
    return staged if found["of"] == _hashes(files) and found["bytes"] == _bytes(staged) else None


def _hashes(files: list[dict[str, Any]]) -> list[str]:
    return [file["sha256"] for file in files]


def _bytes(staged: list[Staged]) -> list[int | None]:
    return sizes([one.path for one in staged if one.rows])
