"""A home on a small disk, and hostile files among many good ones: each good file gets in soon, and nothing else fails.

PSTSTREAM_FUZZ_TIMES: ten rounds for each of its times, at least ten; `make fuzz` runs more.
"""

import gzip
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.reader_deaths import make_environment
from tests.commands import Home, new_home, run_here, run_in_new_python
from tests.fuzz.cases import TIMES
from tests.kill_and_rerun import table_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROUNDS = max(10, round(10 * TIMES))
FILES = 20
HEADER = "object_id,ts,lon,lat,text\n"
KILLED = 3
"""Rounds that a good file waits at most beside a file that kills its reader; otherwise one."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 MB; only root may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256m", "pststream", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def rows(name: str, count: int, text: str) -> str:
    return HEADER + "".join(f"{name}-{n},2026-03-01T00:00:00Z,1,2,{text}\n" for n in range(count))


def too_large(landing: Path, name: str) -> None:
    content = rows(name, 140_000, "tea " * 250).encode()
    (landing / f"{name}.csv.gz").write_bytes(gzip.compress(content, 9))


def killer(landing: Path, name: str) -> None:
    (landing / f"{name}-kills.csv").write_text(rows(name, 1, "tea"))


def test_good_files_get_in_beside_hostile_ones_on_a_small_disk(disk: Path, tmp_path: Path) -> None:
    rnd, landing, home = random.Random(5), tmp_path / "landing", new_home(disk / "home", engine="local", workers=2)
    (landing / "objects").mkdir(parents=True)
    environment = make_environment(tmp_path / "site")
    waiting: dict[str, int] = {}
    killed = 0
    hostile = set(rnd.sample(range(ROUNDS * FILES), max(2, ROUNDS * FILES // 100)))
    kinds = [too_large, killer]
    for number in range(ROUNDS):
        for file in range(FILES):
            name = f"{number:03}-{file:02}"
            if number * FILES + file in hostile:
                kind = kinds[len(kinds) % 2]
                kinds.append(kind)
                kind(landing / "objects", name)
                killed = KILLED if kind is killer else killed
            else:
                (landing / "objects" / f"{name}.csv").write_text(rows(name, 20, "tea"))
                waiting[f"{name}-0"] = number
        arguments = ("run", landing, "--home", home.path, "--json")
        done = run_in_new_python(*arguments, environment=environment) if killed else run_here(*arguments)
        assert done.code == 0 or killed, done.err[-2000:]
        assert "No space left" not in done.err, done.err[-2000:]
        killed = max(0, killed - 1)
        waiting = still_waiting(home, waiting)
        late = [name for name, landed in waiting.items() if number - landed >= (KILLED if killed else 1)]
        assert not late, (number, late[:3], done.err[-2000:])
    while killed:
        run_in_new_python(*arguments, environment=environment)
        killed -= 1
    assert not still_waiting(home, waiting)
    assert table_of(home, "objects").to_pyarrow_table().num_rows == 20 * (ROUNDS * FILES - len(hostile))
    assert home.run("check", "--all")["success"]


def still_waiting(home: Home, waiting: dict[str, int]) -> dict[str, int]:
    stored = set(table_of(home, "objects").to_pyarrow_table(columns=["object_id"]).column(0).to_pylist())
    return {name: landed for name, landed in waiting.items() if name not in stored}
