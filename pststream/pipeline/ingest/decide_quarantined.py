"""Decide on quarantined files: ingest them after all, or discard them."""

import re
from collections.abc import Sequence
from typing import Any

from pststream.pipeline.ingest.ingest import release
from pststream.progress import Progress
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.quarantine import discard

ACTIONS = ("release", "discard")


def decide_quarantined(
    home: Home, settings: Settings, *, action: str, holds: Sequence[int], progress: Progress
) -> dict[str, Any]:
    """Return what `ingest` returns, or {"discarded": [{"hold_id", "path"}]}; holds: numbers of the files."""
    if action == "release":
        return release(home, settings, holds, progress)
    return {"discarded": [{name: row[name] for name in ("hold_id", "path")} for row in discard(home, holds)]}


def read_numbers(text: str) -> list[int]:
    """Return the numbers in a text such as `3, 5`."""
    return [int(word) for word in re.split(r"[\s,]+", text) if word]
