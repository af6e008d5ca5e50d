"""A task whose process is killed while its driver runs on a cluster: the next try waits for the same driver."""

import json
from pathlib import Path

import psutil
import pytest

from pststream import names
from tests.commands import Home
from tests.dags.landing_folder import PAIRS, fill_landing
from tests.e2e.airflow_api import RUN, standalone, wait_for
from tests.spark_cluster import LEAN_DRIVER, cluster_for_drivers

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.e2e, pytest.mark.timeout(1500)]

DAG = "pststream_micro_batch"


def test_a_killed_task_submits_its_job_once(tmp_path: Path) -> None:
    fill_landing(tmp_path / "landing")
    (tmp_path / "conf").mkdir()
    lines = "".join(f"{key} {value}\n" for key, value in LEAN_DRIVER.items())
    (tmp_path / "conf" / "spark-defaults.conf").write_text(lines, "utf-8")
    with cluster_for_drivers(tmp_path / "cluster") as (cluster, connection):
        settings = {
            f"AIRFLOW_CONN_{names.SPARK_CONNECTION.upper()}": json.dumps(connection),
            "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
            "PSTSTREAM_WORKERS": "2",
            "PSTSTREAM_SPARK_DRIVER_MEMORY": "512m",
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
        }
        with standalone(tmp_path, settings) as airflow:
            airflow.turn_on(DAG)
            run = airflow.trigger(DAG, {})
            wait_for(lambda: "Polling driver" in airflow.log(DAG, run, "match"), RUN, "the submission")
            kill_task_process(tmp_path / "airflow")
            assert airflow.end_of(DAG, run) == "success", airflow.log(DAG, run, "match")
            tasks = airflow.call("GET", f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances")["task_instances"]
            assert {task["try_number"] for task in tasks if task["task_id"] == "match"} == {2}
            assert airflow.xcom(DAG, run, "match")["matches"] == len(PAIRS)
        assert len(cluster.drivers) == 1
    pairs = [(object_id, subscription_id) for object_id, _, subscription_id in Home(tmp_path / "home").exported()]
    assert pairs == PAIRS


def kill_task_process(airflow_home: Path) -> None:
    """Kill the process of this Airflow that runs the task; its supervisor goes on."""
    [task] = [one for one in psutil.process_iter() if is_task(one, airflow_home)]
    task.kill()


def is_task(process: psutil.Process, airflow_home: Path) -> bool:
    try:
        title = " ".join(process.cmdline())
        if "airflow worker -- " not in title or "LocalExecutor" in title:
            return False
        return any(f"--airflow-home={airflow_home}" in parent.cmdline() for parent in process.parents())
    except psutil.Error:
        return False
