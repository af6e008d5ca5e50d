"""Commands run with a read-only root file system, and write to /tmp, the home and the cache only, as in a container."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pststream.kernels.compile import cache_folder
from tests.dags.landing_folder import ACCEPTED, PAIRS, fill_landing

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "read_only_root.sh"
UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
PROBE = [*UNSHARE, "bash", str(SCRIPT), str(Path(__file__).parent), "--", "test", "!", "-w", str(ROOT)]
IS_ALLOWED = shutil.which("unshare") and not subprocess.run(PROBE, capture_output=True, check=False).returncode

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not IS_ALLOWED, reason="no mount namespace can be made here"),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the places that can be written, and a landing folder that cannot."""
    for name in ("home", "cache", "tmp"):
        (tmp_path / name).mkdir()
    shutil.copytree(cache_folder(), tmp_path / "cache" / "numba" / cache_folder().name)
    fill_landing(tmp_path / "landing")
    return tmp_path


def run(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    own = {"PSTSTREAM_HOME": "home", "PSTSTREAM_CACHE_DIR": "cache", "TMPDIR": "tmp"}
    variables = os.environ | {name: f"{place}/{folder}" for name, folder in own.items()}
    variables |= {"PSTSTREAM_ENGINE": "local", "PYTHONPATH": str(ROOT), "HOME": "/nowhere"}
    words = [*UNSHARE, "bash", str(SCRIPT), *(f"{place}/{folder}" for folder in own.values()), "--", *command]
    return subprocess.run(words, env=variables, capture_output=True, text=True, check=False, timeout=300)


def test_nothing_else_can_be_written(place: Path) -> None:
    for folder in (place, place / "landing", ROOT, Path("/var")):
        assert "Read-only file system" in run(place, "touch", f"{folder}/written").stderr, folder
    assert run(place, "touch", f"{place}/home/written").returncode == 0


@pytest.mark.deep
def test_files_are_ingested_matched_and_read(place: Path) -> None:
    def pststream(*words: str) -> dict:
        done = run(place, sys.executable, "-m", "pststream.cli.main", *words, "--json")
        assert done.returncode in (0, 3), done.stderr
        document: dict = json.loads(done.stdout)
        return document

    pststream("init")
    ran = pststream("run", f"{place}/landing")
    assert sum(batch["matches"] for batch in ran["match"]["batches"]) == len(PAIRS)
    status = pststream("status")
    assert status["last_hour"]["accepted"] == ACCEPTED
    assert pststream("maintain")
    assert list((place / "tmp").iterdir()) == [], "no temporary file stays"
