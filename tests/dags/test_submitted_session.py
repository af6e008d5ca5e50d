"""Under spark-submit the session takes what was submitted: master, name and memory are not the settings' any more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pststream.settings import Settings
from pststream.state.session import spark_conf

pytestmark = pytest.mark.spark

SCRIPT = """
import json
from pststream.settings import Settings
from pststream.state.session import get_session
session = get_session(Settings())
heap = session._jvm.java.lang.Runtime.getRuntime().maxMemory()
conf = session.sparkContext.getConf()
names = ("spark.master", "spark.app.name", "spark.driver.memory", "spark.sql.extensions")
print(json.dumps({"heap": heap} | {name: conf.get(name) for name in names}))
"""


def test_the_session_is_the_submitted_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    binaries = Path(sys.executable).parent
    submitted = {"spark.driver.memory": "700m", "spark.jars": spark_conf(Settings())["spark.jars"]}
    command = [str(binaries / "spark-submit"), "--master", "local[1]", "--name", "submitted"]
    command += [word for key, value in submitted.items() for word in ("--conf", f"{key}={value}")]
    path = os.pathsep.join([str(binaries), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [*command, str(tmp_path / "script.py")], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("heap") <= 800 * 1024**2
    assert found == {
        "spark.master": "local[1]",
        "spark.app.name": "submitted",
        "spark.driver.memory": "700m",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    }
