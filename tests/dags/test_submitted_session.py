"""Under spark-submit the engine runs in the submitted JVM, with the submitted settings; its pages name the jobs.

Killing that Spark ends the submitted JVM and lets this process end by itself.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pststream.base import names
from pststream.engine.spark_session import spark_conf
from pststream.settings import Settings
from tests.moto_process import free_port

pytestmark = [pytest.mark.spark, pytest.mark.deep]

SCRIPT = """
import json, os, sys, urllib.request
from pststream.settings import Settings
from pststream.engine.running_engine import get_engine
from pststream.engine.spark_session import get_session, kill_spark
conf = get_session(Settings()).conf
names = ("spark.master", "spark.app.name", "spark.driver.memory", "spark.sql.extensions")
found = {name: conf.get(name) for name in names}
def twice_a_number(number):
    return 2 * number
found["values"] = sorted(get_engine(Settings(engine="spark")).run_tasks(range(3), twice_a_number))
pages = "http://127.0.0.1:" + sys.argv[2] + "/api/v1/applications"
read = lambda address: json.load(urllib.request.urlopen(address))
jobs = read(f"{pages}/{read(pages)[0]['id']}/jobs")
found["named"] = any(tag.endswith("_twice a number") for job in jobs for tag in job["jobTags"])
kill_spark()
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(found, file)
os.rename(file.name, sys.argv[1])
"""


def test_the_session_is_the_submitted_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    binaries = Path(sys.executable).parent
    submitted = {"spark.driver.memory": "700m", "spark.jars": spark_conf(Settings())["spark.jars"]}
    submitted |= names.DELTA_CONF
    port = str(free_port())
    submitted |= {"spark.ui.enabled": "true", "spark.ui.port": port}
    command = [str(binaries / "spark-submit"), "--master", "local[1]", "--name", "submitted"]
    command += [word for key, value in submitted.items() for word in ("--conf", f"{key}={value}")]
    path = os.pathsep.join([str(binaries), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [*command, str(tmp_path / "script.py"), str(tmp_path / "found.json"), port],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    until = time.monotonic() + 60
    while not (tmp_path / "found.json").exists():
        assert time.monotonic() < until, "the process did not go on when its Spark was killed"
        time.sleep(0.05)
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found == {
        "spark.master": "local[1]",
        "spark.app.name": "submitted",
        "spark.driver.memory": "700m",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "values": [0, 2, 4],
        "named": True,
    }
