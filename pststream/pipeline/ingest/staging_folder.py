"""Save and load the list of the staged files of an ingest, so that an interrupted ingest can be finished.

The staged files are kept until the ingest is done. So the ingest is finished with the rows that it has read, even if
the input files have changed since. Staged files are not flushed to disk. If a power cut has damaged one, the input
files are read again.
"""

import json
from dataclasses import asdict
from typing import Any

from pststream.pipeline.ingest.stage_file import StagedFile
from pststream.pipeline.ingest.staged_rows import StagedRows, is_intact
from pststream.state.home import FORMAT, Home
from pststream.storage.parquet_files import file_sizes

STAGING = "staging"
_LIST = f"{STAGING}/staged.json"
_FIELDS = ("file_seq", "parts", "last_row", "max_time")


def staging_path(home: Home) -> str:
    """Return the folder where tasks write staged files and verdict files."""
    return f"{home.path}/{STAGING}"


def clear_staging(home: Home) -> None:
    """Delete all files of the staging folder."""
    home.files.delete(home.files.names(STAGING))


def save_staged(home: Home, files: list[dict[str, Any]], staged: list[StagedFile]) -> None:
    """Write the list of the staged files of these input files (ledger rows)."""
    rows = [{name: asdict(one)[name] for name in _FIELDS} for one in staged]
    content = {"home_format": FORMAT, "of": _hashes(files), "staged": rows, "bytes": _bytes(staged)}
    home.files.write(_LIST, json.dumps(content).encode())


def load_staged(home: Home, files: list[dict[str, Any]]) -> list[StagedFile] | None:
    """Return the staged files of exactly these input files; None if any is missing or has other bytes."""
    try:
        content = json.loads(home.files.read(_LIST))
    except (FileNotFoundError, ValueError):
        return None
    if content["home_format"] != FORMAT:  # staged before an upgrade, with other columns
        return None
    staged = [
        StagedFile(**one | {"parts": tuple(StagedRows(**part) for part in one["parts"])}) for one in content["staged"]
    ]
    if content["of"] != _hashes(files) or content["bytes"] != _bytes(staged):
        return None
    return staged if all(is_intact(part) for one in staged for part in one.parts) else None


def _hashes(files: list[dict[str, Any]]) -> list[str]:
    return [file["sha256"] for file in files]


def _bytes(staged: list[StagedFile]) -> list[int | None]:
    return file_sizes([part.path for one in staged for part in one.parts])
