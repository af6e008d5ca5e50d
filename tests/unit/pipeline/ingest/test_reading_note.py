"""The note of the files that are read keeps the dead tries of every file that is offered."""

import json
from pathlib import Path

import pytest

from pststream.pipeline.ingest import isolated_reader
from pststream.pipeline.ingest.isolated_reader import DEAD_TRIES, NOTE, noted_reading
from pststream.state.home import Home


def test_more_files_than_the_note_keeps_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the files of each dead try would push out those of the try before, and none would ever be a suspect."""
    monkeypatch.setattr(isolated_reader, "MAX_FILES", 2)
    home, offered = Home(tmp_path), [str(number) for number in range(6)]
    for _ in range(DEAD_TRIES):
        with pytest.raises(KeyboardInterrupt), noted_reading(home, offered):
            raise KeyboardInterrupt
    with noted_reading(home, offered) as suspects:
        assert suspects == dict.fromkeys(offered, DEAD_TRIES)
    with noted_reading(home, ["new"]) as suspects:
        assert not suspects
        assert json.loads((tmp_path / NOTE).read_text("ascii")) == {"4": DEAD_TRIES, "5": DEAD_TRIES, "new": 1}
