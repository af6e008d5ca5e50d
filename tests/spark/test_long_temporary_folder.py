"""With a TMPDIR whose path is too long for a Unix socket, Python workers still use one, in a private folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, os, socket
from pststream.engine.spark_session import SOCKETS, get_context
from pststream.settings import Settings

def connections(_):
    yield [line.split()[-1] for line in open("/proc/net/unix") if "/pststream-spark-" in line]

context = get_context(Settings(spark_master="local[1]"))
used = context.parallelize([0], 1).mapPartitions(connections).collect()
print(json.dumps([context.getConf().get(f"{SOCKETS}.dir"), used[0]]))
"""


def test_workers_use_a_socket_in_a_private_folder(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100)
    folder.mkdir()
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    sockets, used = json.loads(done.stdout.splitlines()[-1])
    assert any(path.startswith(f"{sockets}/") for path in used)
    assert not Path(sockets).exists()  # deleted at the end
