"""Read a home whose tables have columns that this process does not declare: its kinds were registered too late."""

import json
from pathlib import Path

import pytest

from pststream.state import home as state


def accept_tables(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands of this process take the tables of a home for those that they declare."""
    digest = json.loads((home / "home.json").read_text("utf-8"))["tables"]
    monkeypatch.setattr(state, "digest_of_tables", lambda: digest)
