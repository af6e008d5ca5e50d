"""A storage is added as one module and one line: the line in `names.STORAGES`, which these tests patch in."""

import itertools
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pststream.base import names
from pststream.base.errors import HomeBusy, UsageError
from pststream.engine import running_engine
from pststream.engine.contract import SentRows, Stage, StageProgress
from pststream.state.home import Home as State
from pststream.storage.registry import files_at, local_path, normalize, storage_of
from tests.bucket_home import BucketHome
from tests.commands import new_home, run_here
from tests.conformance.counting_storage import COUNTS, STORAGE
from tests.kill_and_rerun import written
from tests.unit.storage import test_files


class InlineEngine:
    """Runs tasks in this process, where the storage is known; each task and value is pickled, as on a cluster."""

    parallelism = 2

    def __init__(self, context: object) -> None:
        pass

    def run_tasks(
        self,
        tasks: Sequence[Any],
        function: Callable[[Any], Any],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Any]:
        return [copied(function(copied(task))) for task in tasks]

    def run_shuffled(
        self,
        tasks: Sequence[Any],
        send: Callable[[Any], Iterable[SentRows]],
        stages: Sequence[Stage],
        ended: StageProgress | None = None,
        seconds: float | None = None,
    ) -> list[Any]:
        values: list[Any] = [list(send(copied(task))) for task in tasks]
        for stage in stages:
            received: dict[int, list[tuple[int, pa.RecordBatch]]] = defaultdict(list)
            for part, tag, rows in itertools.chain.from_iterable(values):
                if rows.num_rows:
                    received[part].append((tag, rows))
            values = [stage.function(part, iter(rows)) for part, rows in sorted(received.items())]
        return copied(values)


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(names.STORAGES, "test://", "tests.conformance.counting_storage")


@pytest.fixture
def inline_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_engine, "get_engine_session", lambda settings: None)
    monkeypatch.setattr(running_engine, "SparkEngine", InlineEngine)


def test_its_addresses_are_unknown_without_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no storage has such addresses"):
        normalize(f"test://{tmp_path}")
    assert run_here("init", "--home", f"test://{tmp_path}/home").code == 2
    assert not (tmp_path / "home").exists()


def test_its_addresses_are_its_own(added: None, tmp_path: Path) -> None:
    assert storage_of(f"test://{tmp_path}") is STORAGE
    assert normalize(f"test://{tmp_path}/") == f"test://{tmp_path}" and local_path(f"test://{tmp_path}") is None
    assert storage_of(str(tmp_path)) is not STORAGE and local_path(str(tmp_path)) == tmp_path
    with pytest.raises(UsageError, match="absolute"):
        normalize("test://relative")


def test_its_files_keep_the_contract(added: None, tmp_path: Path) -> None:
    test_files.test_what_is_written_is_read(files_at(f"test://{tmp_path}/root"), tmp_path)


def test_its_locks_are_leases(added: None, tmp_path: Path) -> None:
    home = State(f"test://{tmp_path}/home")
    home.init()
    with home.locked():
        with pytest.raises(HomeBusy), State(home.path).locked():
            pass
        with home.locked("deliver-a"):
            pass
    with home.locked():
        assert b'"number": 2' in (tmp_path / "home" / ".lock").read_bytes()


def test_commands_run_on_it(added: None, inline_engine: None, tmp_path: Path) -> None:
    """Init, run on a landing folder there, status and export; the matches are those of the oracle and of a folder."""
    COUNTS.clear()
    world = written(tmp_path / "landing", seed=11, files=2)
    for kind, files in (("objects", world.objects), ("requests", world.requests)):
        (tmp_path / "landing" / kind).mkdir()
        for file in files:
            file.rename(tmp_path / "landing" / kind / file.name)
    home = BucketHome(f"test://{tmp_path}/home", tmp_path)
    home.run("init")
    home.set(planner="kd_tree", workers=3, lateness_seconds=world.lateness_seconds)
    ran = home.run("run", f"test://{tmp_path}/landing")
    assert ran["ingest"]["objects"]["files"] == ran["ingest"]["requests"]["files"] == 2
    again = home.run("run", f"test://{tmp_path}/landing")
    assert again["ingest"]["objects"]["files_skipped"] == 2
    status = home.run("status")
    assert status["home"] == home.path and status["totals"]["batches"] == 1
    for name in ("read", "version", "write_if", "list", "copy", "file_system", "delta"):
        assert COUNTS[name], f"{name} was never called"

    folder = new_home(tmp_path / "folder", planner="kd_tree", workers=3, lateness_seconds=world.lateness_seconds)
    folder.run("run", str(tmp_path / "landing"))
    assert home.exported() == folder.exported() != []
