"""Define the operator that submits an entry of jobs/ to Spark, reads its result, and retries what a retry can solve."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Context, ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)
from pststream_dags import lineage

from pststream import names

JOBS = Path(os.environ.get("PSTSTREAM_JOBS") or Path(__file__).resolve().parents[2] / "jobs")
JARS = Path(sys.prefix) / "share" / "pststream" / "jars"
DRIVER_MEMORY = "2g"
LOCAL = re.compile(r"://local(\[.*\])?$")

DONE, REFUSED, DONE_WITH_REJECTS = 0, 2, 3
RUNNER_BUSY = "RunnerBusy"
"""The kind of error of a run that leaves the work to a watcher or to another run."""


class JobRefused(AirflowFailException):
    """The job refused its arguments, settings or input; a retry would end the same way."""


class JobFailed(AirflowException):
    """The job failed and may be run again as it is."""


class JobLost(AirflowException):
    """The job left no result: it was killed, ran out of memory, or never started."""


RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(JobRefused, RetryAction.FAIL, reason="a retry would end the same way"),
        RetryRule(JobFailed, RetryAction.RETRY, timedelta(seconds=20), "the job failed and may be run again"),
        RetryRule(JobLost, RetryAction.RETRY, timedelta(minutes=1), "the job was killed or could not start"),
    ]
)
"""By kind of error. Every job is idempotent, so a retry never writes anything twice."""


class SparkJob(SparkSubmitOperator):
    """Submits `jobs/<job>.py` with the project's connection, in its pool of one slot; returns the job's JSON document.

    job        name of the entry
    arguments  its arguments, templated; `--option=` with an empty value counts as not given
    summarize  makes the XCom from {"exit_code": …, "result": the command's JSON}; default: the command's JSON
    """

    def __init__(
        self,
        *,
        job: str,
        arguments: Sequence[str],
        summarize: Callable[[dict[str, Any]], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("retries", 3)
        kwargs.setdefault("retry_policy", RETRY_POLICY)
        kwargs.setdefault("pool", names.SPARK_POOL)
        kwargs.setdefault("conn_id", names.SPARK_CONNECTION)
        super().__init__(
            application=str(JOBS / f"{job}.py"),
            application_args=list(arguments),
            name=f"pststream-{job}",
            **kwargs,
        )
        self.job = job
        self.summarize = summarize

    def execute(self, context: Context) -> Any:
        """Submit, wait, and return the summary; raises as `check_outcome` does."""
        with tempfile.TemporaryDirectory(prefix="pststream-") as folder:
            file = Path(folder) / "result.json"
            self._prepare(file, context)
            try:
                super().execute(context)
            except FileNotFoundError as error:
                raise JobRefused(f"{error}: install Spark where Airflow's tasks run") from error
            except AirflowException as error:
                outcome, cause = read_outcome(file), error
            else:
                outcome, cause = read_outcome(file), None
        check_outcome(self.job, outcome, cause)
        lineage.report_tables(self.job, self.application_args or [], self)
        return self.summarize(outcome) if self.summarize else outcome["result"]

    def _prepare(self, result: Path, context: Context) -> None:
        """Set arguments, Spark configuration and environment that depend on this machine."""
        master = _master(self._conn_id)
        self.application_args = [f"--result={result}", *(self.application_args or [])]
        self.conf = spark_conf() | (self.conf or {})
        if not any(manager in master for manager in ("yarn", "k8s")):
            more = environment() | driver_address(master) | lineage.parent_run_variable(context["ti"])
            self.env_vars = more | (self.env_vars or {})


def spark_conf() -> dict[str, str]:
    """Return the Spark configuration that the JVM needs at its start; the job sets the rest."""
    memory = os.environ.get("PSTSTREAM_SPARK_DRIVER_MEMORY") or DRIVER_MEMORY
    jars = ",".join(sorted(map(str, JARS.glob("*.jar"))))
    conf = {"spark.driver.memory": memory, "spark.log.level": "WARN"}
    return conf | ({"spark.jars": jars} if jars else {})


def environment() -> dict[str, str]:
    """Return the environment of a driver on this machine: its Python, its spark-submit, its submitters' ids."""
    binaries = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(JOBS.parent), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PSTSTREAM_SUBMITTERS": f"{os.getpid()},{os.getppid()}",
    }


def driver_address(master: str) -> dict[str, str]:
    """Return the address of a local driver, loopback; nothing on a cluster, whose nodes use the machine's name."""
    return {"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")} if LOCAL.search(master) else {}


def read_outcome(file: Path) -> dict[str, Any] | None:
    """Return the content of the job's result file; None if there is none."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def check_outcome(job: str, outcome: dict[str, Any] | None, cause: Exception | None) -> None:
    """Raise unless the job is done, with or without rejects; AirflowSkipException if a watcher does its work."""
    if outcome is None:
        exit_code = str(cause or "none").rpartition("Error code is: ")[2]
        raise JobLost(f"job {job} left no result; it was killed, or never started. Exit code: {exit_code}") from None
    if outcome["exit_code"] in (DONE, DONE_WITH_REJECTS):
        return
    if outcome.get("kind") == RUNNER_BUSY:
        raise AirflowSkipException(outcome["error"])
    kind = JobRefused if outcome["exit_code"] == REFUSED else JobFailed
    raise kind(f"job {job} ended with {outcome['exit_code']}: {outcome['error']}") from None


def _master(connection_id: str) -> str:
    """Return the Spark master of the connection. Without the connection the provider would silently use YARN."""
    try:
        connection = BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise JobRefused(
            f"no connection {connection_id!r}: add it in Airflow (Admin, Connections; type Spark, host e.g. local[2])"
        ) from None
    return f"{connection.conn_type}://{connection.host}"
