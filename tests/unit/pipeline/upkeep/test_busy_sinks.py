"""An erasure that meets a delivery which does not end says what to do, and changes nothing."""

from pathlib import Path

import pytest

from pststream.base.errors import HomeBusy
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.upkeep import erase as module
from pststream.pipeline.upkeep.erase import erase
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import table_version
from tests.unit.reports.commands.homes import add_file, thing

SETTINGS = Settings(sinks=(SinkSettings("a", "file", "unused"),))


@pytest.mark.parametrize("scope", ["deliver-a", "compact-deliveries"])
def test_the_error_names_the_process_and_the_next_step(
    hand_home: Home, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setattr(module, "RUNNER_WAIT_SECONDS", 0.1)
    add_file(hand_home, "objects", [thing(1, "o")])
    before = {name: table_version(hand_home.table(name)) for name in TABLES}
    with Home(hand_home.path).locked(scope), pytest.raises(HomeBusy, match="is in use by .* \\(process") as caught:
        erase(hand_home, SETTINGS, object_ids=["o"])
    assert "stop that process" in caught.value.hint and "pststream status" in caught.value.hint
    assert {name: table_version(hand_home.table(name)) for name in TABLES} == before
    assert not Path(hand_home.path, "erasing.json").exists()
    assert erase(hand_home, SETTINGS, object_ids=["o"])["rows"] == {"objects": 1}
