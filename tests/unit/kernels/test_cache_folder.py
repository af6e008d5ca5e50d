"""The folder of compiled kernels: code that another user may have written is not loaded."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from pststream.kernels.compile import cache_folder


def load(cache: Path) -> "subprocess.CompletedProcess[str]":
    program = "from pststream.kernels import compile"
    variables = os.environ | {"PSTSTREAM_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_cache_that_others_may_write_is_refused(tmp_path: Path) -> None:
    assert load(tmp_path / "cache").returncode == 0
    numba = tmp_path / "cache" / "numba"
    (version,) = numba.iterdir()
    assert version.name == cache_folder().name
    assert [stat.S_IMODE(one.stat().st_mode) for one in (numba.parent, numba, version)] == [0o700] * 3
    for folder, mode in ((version, 0o770), (numba, 0o777)):
        folder.chmod(mode)
        refused = load(tmp_path / "cache")
        assert refused.returncode != 0 and f"{folder}: another user may write compiled code" in refused.stderr
        folder.chmod(0o755)
        assert load(tmp_path / "cache").returncode == 0, "others may read it"
    if os.geteuid() == 0:
        os.chown(version, 12_345, 12_345)
        assert "another user may write" in load(tmp_path / "cache").stderr
