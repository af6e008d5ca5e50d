"""Outcomes of jobs leave the home when they are old, with the folders of their runs."""

import os
import time
from pathlib import Path

from pststream.base import names
from pststream.pipeline.upkeep.maintain import delete_old_outcomes
from pststream.state.home import Home

DAY = 86_400


def test_old_outcomes_are_deleted_with_the_folders_of_their_runs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert delete_old_outcomes(home, 7) == 0
    for run, days in (("old", 8), ("recent", 6)):
        home.files.write(f"{names.OUTCOMES}/dag/{run}/match-1.json", b"{}")
        past = time.time() - days * DAY
        os.utime(tmp_path / names.OUTCOMES / "dag" / run / "match-1.json", (past, past))
    assert delete_old_outcomes(home, 7) == 1
    assert [path.name for path in (tmp_path / names.OUTCOMES / "dag").iterdir()] == ["recent"]
    assert home.files.exists(f"{names.OUTCOMES}/dag/recent/match-1.json")
