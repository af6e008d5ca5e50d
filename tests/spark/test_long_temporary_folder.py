"""With a TMPDIR whose path is too long for a Unix socket, Python workers still use one, in a private folder.

They load no module from the current folder.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

PROGRAM = '''
import json
import os
from pststream.engine.running_engine import get_engine
from pststream.settings import Settings

def connections(_):
    """The paths of this worker's own sockets; other programs may use Spark at the same time."""
    descriptors = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    mine = {os.readlink(path) for path in descriptors if os.path.islink(path)}
    lines = [line.split() for line in open("/proc/net/unix")]
    return [words[-1] for words in lines if f"socket:[{words[6]}]" in mine and "/pststream-spark-" in words[-1]]

print(json.dumps(get_engine(Settings(engine="spark", spark_master="local[1]")).run_tasks([0], connections)[0]))
'''


def test_workers_use_a_socket_in_a_private_folder(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100)
    folder.mkdir()
    (folder / "pickle.py").write_text("raise SystemExit('loaded')\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    used = json.loads(done.stdout.splitlines()[-1])
    assert used
    assert not any(Path(path).parent.exists() for path in used)  # deleted at the end
