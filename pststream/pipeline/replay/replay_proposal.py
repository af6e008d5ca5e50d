"""Replay the last batches under the plan that a proposal of `balance` makes, and write a page with the loads."""

from pathlib import Path
from typing import Any

from pststream.pipeline.replay.chosen_batches import last_batches
from pststream.pipeline.replay.replay import replay
from pststream.pipeline.replay.tried_plan import proposed_plan
from pststream.progress import Progress
from pststream.reports.pages.replay_page import write_replay
from pststream.settings import Settings
from pststream.state.home import Home


def replay_proposal(
    home: Home, settings: Settings, *, last: int, proposal: Path, page: Path, progress: Progress
) -> dict[str, Any]:
    """Return the document of `replay`; last: the number of batches."""
    chosen = last_batches(home.check(), last)
    document = replay(home, settings, chosen, proposed_plan(home, proposal), progress=progress)
    write_replay(page, home.path, document)
    return document
