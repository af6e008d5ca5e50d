"""Upkeep of the worker index, as a command."""

from typing import Any

from pststream.pipeline.merge import compact, drop_ended
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.index_files import index_files
from pststream.state.ledger import Ledger
from pststream.state.plans import current_version
from pststream.state.session import get_session


def maintain(home: Home, settings: Settings) -> dict[str, Any]:
    """Drop what ended before any object still to come, merge small files.

    Nothing is dropped while a batch is unfinished: its late subscriptions are still to meet stored objects.
    """
    home.check()
    with home.locked():
        version = current_version(home)
        before = len(index_files(home, version))
        idle = Ledger(home).unfinished_batch() is None
        dropped = drop_ended(home, settings, version) if before and idle else 0
        if before:
            compact(get_session(settings), home, version)
        return {
            "plan_version": version,
            "dropped_rows": dropped,
            "files_before": before,
            "files_after": len(index_files(home, version)),
        }
