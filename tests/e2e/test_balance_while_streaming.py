"""Cells move while a watcher takes objects and subscriptions in: no match is missed or doubled (Tornado 4.5)."""

from pathlib import Path

import pytest

from pststream.base import names
from pststream.pipeline.replan import balance as balance_module
from pststream.pipeline.replan.measured_loads import MeasuredLoads
from pststream.state.home import Home as State
from pststream.tables.ledgers import read_files
from tests.commands import new_home
from tests.damage import allow_changes
from tests.kill_and_rerun import assert_as_the_twin, written
from tests.oracles.twin_rows import LogFile
from tests.unbalanced_homes import RESTLESS
from tests.watcher_process import Watching, landing_folder

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1500), pytest.mark.deep]

FILES = 8


@pytest.fixture
def uneven_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each adjustment reads seconds that are worth a move, the most of another worker after each batch.

    It writes them while it has the home to itself; the measured ones of 30 objects are noise.
    """
    measure = balance_module.measure_loads

    def write_and_measure(home: State, version: int, batches: int) -> MeasuredLoads:
        loads = allow_changes(home.table(names.UNIT_LOADS))
        loads.update({"cpu_seconds": "1.0 + (batch_id + worker) % 4"}, predicate="unit = -1")
        return measure(home, version, batches)

    monkeypatch.setattr(balance_module, "measure_loads", write_and_measure)


@pytest.mark.usefixtures("uneven_loads")
@pytest.mark.parametrize(("planner", "method"), [("a_grid", "shift"), ("quadtree", "fm")])
def test_nothing_is_missed_or_doubled(tmp_path: Path, planner: str, method: str) -> None:
    """Each adjustment has a batch to judge, and takes its turn while the watcher matches files that just landed."""
    world = written(tmp_path / "files", 71, FILES)
    home = new_home(tmp_path / "home", planner=planner, workers=4, lateness_seconds=world.lateness_seconds, **RESTLESS)
    moved, batches, log = 0, 0, list[LogFile]()
    with Watching(home, landing_folder(tmp_path / "landing")) as watching:
        for number in range(FILES):
            if number:
                batches = watching.until(lambda pulse, before=batches: pulse.get("batches", 0) > before)["batches"]
            for kind, path in (("requests", world.requests[number]), ("objects", world.objects[number])):
                watching.land(kind, path)
                log.append(LogFile(kind, path))
            if number:
                moved += len(home.run("balance", "local", "--method", method, "--apply")["moves"])
        watching.until(lambda pulse: len(read_files(State(home.path))) == len(log))
        watching.until_idle()
        code, document, _ = watching.end()
    assert (code, document["failures"]) == (0, 0)
    assert moved > 0
    assert home.run("check")["success"]
    assert_as_the_twin(home, log, world.lateness_seconds)
