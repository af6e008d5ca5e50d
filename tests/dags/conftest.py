"""Fixtures: an Airflow in a temporary folder with settings of its own, and the DAG folder as Airflow reads it."""

import copy
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "dags"
OURS = (
    "PSTSTREAM_HOME",
    "PSTSTREAM_LANDING",
    "PSTSTREAM_JOBS",
    "PSTSTREAM_MICRO_BATCH",
    "PSTSTREAM_REPARTITION",
    "PSTSTREAM_MAINTAIN",
    "PSTSTREAM_CHECK_TABLES",
    "PSTSTREAM_ADJUST",
    "PSTSTREAM_PAGES",
    "PSTSTREAM_APPROVAL",
    "PSTSTREAM_HEALTH",
    "PSTSTREAM_EXPECT_WATCHER",
)


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Airflow's home with its tables. Nothing may import Airflow before this."""
    home = tmp_path_factory.mktemp("airflow")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AIRFLOW", *OURS))]:
            patch.delenv(name)
        patch.setenv("AIRFLOW_HOME", str(home))
        patch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(DAGS))
        patch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
        patch.setenv("AIRFLOW__CORE__UNIT_TEST_MODE", "False")
        for option in ("HOMES", "LANDINGS"):
            places = [f"{tmp_path_factory.getbasetemp()}/*/*"]
            patch.setenv(f"AIRFLOW__PSTSTREAM__ALLOWED_{option}", json.dumps(places))
        connection = {"conn_type": "spark", "host": "local[2]"}
        patch.setenv(f"AIRFLOW_CONN_{names.SPARK_CONNECTION.upper()}", json.dumps(connection))
        patch.syspath_prepend(str(DAGS))
        shutil.copy(_database(tmp_path_factory.getbasetemp()), home / "airflow.db")
        yield home


def _database(folder: Path) -> Path:
    """Return an empty database of Airflow in a home that all test processes share; the first one makes it."""
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "airflow-database"
    shared.mkdir(exist_ok=True)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "done").exists():
            command = [str(Path(sys.executable).parent / "airflow"), "db", "migrate"]
            environment = {**os.environ, "AIRFLOW_HOME": str(shared)}
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=500)
            (shared / "done").touch()
    return shared / "airflow.db"


@pytest.fixture
def dagbag(airflow_home: Path) -> Any:
    """The DAG folder as Airflow reads it, with copies of the forms, so that no test sees the values of another."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(DAGS))
    for dag in bag.dags.values():
        dag.params = copy.deepcopy(dag.params)
    return bag
