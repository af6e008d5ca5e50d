"""The list of staged files: read again after a crash, and not after an upgrade, since their columns may differ."""

import json
from pathlib import Path

import pytest

from pststream.pipeline.ingest.staging_folder import load_staged, save_staged
from pststream.state.home import FORMAT, Home

FILES = [{"sha256": "0"}]


@pytest.mark.parametrize(("format", "loaded"), [(FORMAT, []), (FORMAT - 1, None), (None, None)])
def test_files_staged_before_an_upgrade_are_staged_again(
    tmp_path: Path, format: int | None, loaded: list | None
) -> None:
    home = Home(tmp_path / "home")
    home.init()
    save_staged(home, FILES, [])
    path = Path(home.path, "staging", "staged.json")
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"format": format}), "utf-8")
    assert load_staged(home, FILES) == loaded
    assert load_staged(home, [{"sha256": "1"}]) is None
