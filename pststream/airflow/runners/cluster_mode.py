"""Prepare a job whose driver runs on a node of the cluster, and read the outcome that it leaves in the home."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks import spark_submit

from pststream.airflow.runners.engine_choice import file_name, home_of, landing_of, read_file
from pststream.airflow.runners.job_outcome import JobRefused
from pststream.airflow.runners.job_process import JOBS
from pststream.base import names

PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"
"""Spark's own class that runs a Python program: a standalone master refuses a Python program itself in cluster mode."""

OUTCOME_KEY = "pststream_outcome"
"""Key in Airflow's store of a task: the file of the outcome of the submission that runs or ran last."""


OWN_VARIABLES = (names.SINK_VARIABLES, "PSTSTREAM_CACHE_", "PSTSTREAM_SPARK_")
"""How variables begin that are secret, or belong to a node or to whoever starts Spark."""

STORE_VARIABLES = {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}


def outcome_name(task_instance: Any) -> str:
    """Return the name of the file of the outcome in the home: by DAG, run, task and try."""
    mapped = f"-{task_instance.map_index}" if task_instance.map_index >= 0 else ""
    task = f"{task_instance.task_id}{mapped}-{task_instance.try_number}.json"
    return "/".join((names.OUTCOMES, *map(file_name, (task_instance.dag_id, task_instance.run_id, task))))


def absolute_home(arguments: Sequence[str]) -> str:
    """Return the home of a job, as any node finds it."""
    home = home_of(arguments)
    return home.rstrip("/") if names.storage_prefix(home) else str(Path(home).absolute())


def read_outcome_of(home: str, name: str) -> dict[str, Any] | None:
    """Return the outcome that a job left in the home; None if it left none."""
    try:
        outcome: dict[str, Any] = json.loads(read_file(home, name))
    except (FileNotFoundError, ValueError):
        return None
    return outcome


def python_program(job: str, arguments: Sequence[str]) -> list[str]:
    """Return the arguments of PYTHON_RUNNER: the program, folders for its PYTHONPATH, its own arguments."""
    return [str(JOBS / f"{job}.py"), str(JOBS.parent), *arguments]


def absolute_landing(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a job with its landing folder, if it has one, as any node finds it."""
    landing = landing_of(arguments)
    landing = landing if names.storage_prefix(landing) else str(Path(landing).absolute())
    return [f"--landing={landing}" if word.startswith("--landing=") else word for word in arguments]


def passed_variables() -> dict[str, str]:
    """Return the variables of this process that a driver on YARN or Kubernetes and its executors need.

    These are those of PSTStream, except secrets and those of a node or of Spark, and where a store is. No keys: other
    users see the arguments of spark-submit.
    """
    ours = {name for name in os.environ if name.startswith("PSTSTREAM_") and not name.startswith(OWN_VARIABLES)}
    return {name: value for name, value in os.environ.items() if name in ours | STORE_VARIABLES}


def in_image(paths: str | None) -> str | None:
    """Return local paths, separated by commas, as Spark finds them in the image of the driver on Kubernetes."""
    return paths and ",".join(path if "://" in path else f"local://{path}" for path in paths.split(","))


def check_cluster_manager(master: str, env_vars: Mapping[str, str] | None) -> None:
    """Raise JobRefused if Airflow's operator could not submit to this master in cluster mode."""
    if "k8s" in master and getattr(spark_submit, "kube_client", None) is None:
        raise JobRefused("drivers on Kubernetes: install apache-airflow-providers-cncf-kubernetes where tasks run")
    if env_vars and "k8s" not in master and "yarn" not in master:
        raise JobRefused("a standalone master passes no env_vars to a driver: set them where its nodes start")
