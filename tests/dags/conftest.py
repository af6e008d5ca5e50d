"""Fixtures: an Airflow in a temporary folder with settings of its own, and the DAG folder as Airflow reads it."""

import copy
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pststream.base import names
from tests.airflow_database import empty_database

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "dags"
OURS = (
    "PSTSTREAM_HOME",
    "PSTSTREAM_LANDING",
    "PSTSTREAM_JOBS",
    "PSTSTREAM_PYTHON",
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


@pytest.fixture(scope="session", autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Airflow's home with its tables. Nothing may import Airflow before this, so it is made before the first test."""
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
        shutil.copy(empty_database(tmp_path_factory.getbasetemp()), home / "airflow.db")
        yield home


@pytest.fixture(scope="session")
def read_once(airflow_home: Path) -> tuple[Any, dict[str, Any]]:
    """The DAG folder as Airflow reads it, and a copy of the form of each DAG and task, by name."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(DAGS))
    return bag, {name: copy.deepcopy(one.params) for name, one in _with_forms(bag)}


def _with_forms(bag: Any) -> Iterator[tuple[str, Any]]:
    for name, dag in bag.dags.items():
        yield name, dag
        yield from ((f"{name}.{task.task_id}", task) for task in dag.tasks)


@pytest.fixture
def dagbag(read_once: tuple[Any, dict[str, Any]]) -> Any:
    """The DAG folder, with new copies of the forms, into which Airflow writes the values of a run.

    A test that changes a task does so by `monkeypatch`.
    """
    bag, forms = read_once
    for name, one in _with_forms(bag):
        one.params = copy.deepcopy(forms[name])
    return bag
