"""The operator that submits an entry of jobs/, reads how it ended, and knows which failures are worth another try."""

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
"""The kind of error of a run whose work a watcher, or another run, does."""


class JobRefused(AirflowFailException):
    """A usage, a setting or an input that the job cannot work with: another try would end the same way."""


class JobFailed(AirflowException):
    """The job said that it failed and may be run again as it is."""


class JobLost(AirflowException):
    """The job ended without a word: killed, out of memory, or never started."""


RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(JobRefused, RetryAction.FAIL, reason="a retry would end the same way"),
        RetryRule(JobFailed, RetryAction.RETRY, timedelta(seconds=20), "the job failed and may be run again"),
        RetryRule(JobLost, RetryAction.RETRY, timedelta(minutes=1), "the job was killed or could not start"),
    ]
)
"""By kind of error. Every job is idempotent, so that a retry never doubles anything."""


class SparkJob(SparkSubmitOperator):
    """Submits `jobs/<job>.py` with the project's connection, in its one-slot pool; returns what the job counted.

    job: name of the entry.
    arguments: its arguments, templated; `--option=` with nothing behind it counts as not given.
    summarize: makes the XCom from {"exit_code": …, "result": the command's JSON}; default: the command's JSON.
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
        lineage.tell(self.job, self.application_args or [], self)
        return self.summarize(outcome) if self.summarize else outcome["result"]

    def _prepare(self, result: Path, context: Context) -> None:
        """What only the machine that submits can know."""
        master = _master(self._conn_id)
        self.application_args = [f"--result={result}", *(self.application_args or [])]
        self.conf = spark_conf() | (self.conf or {})
        if not any(manager in master for manager in ("yarn", "k8s")):
            more = environment() | address(master) | lineage.parent(context["ti"])
            self.env_vars = more | (self.env_vars or {})


def spark_conf() -> dict[str, str]:
    """What must be known before the JVM starts; the job sets the rest when it makes its session."""
    memory = os.environ.get("PSTSTREAM_SPARK_DRIVER_MEMORY") or DRIVER_MEMORY
    jars = ",".join(sorted(map(str, JARS.glob("*.jar"))))
    conf = {"spark.driver.memory": memory, "spark.log.level": "WARN"}
    return conf | ({"spark.jars": jars} if jars else {})


def environment() -> dict[str, str]:
    """Environment of a driver on this machine: this Python, its spark-submit, and whose child it is."""
    binaries = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(JOBS.parent), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PSTSTREAM_SUBMITTERS": f"{os.getpid()},{os.getppid()}",
    }


def address(master: str) -> dict[str, str]:
    """Environment of a driver on loopback; one with a cluster is called back by the nodes, under the machine's name."""
    return {"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")} if LOCAL.search(master) else {}


def read_outcome(file: Path) -> dict[str, Any] | None:
    """What the job left in its result file; None if it left nothing."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def check_outcome(job: str, outcome: dict[str, Any] | None, cause: Exception | None) -> None:
    """Raise unless the job got done, with or without rejects; AirflowSkipException where a watcher does its work."""
    if outcome is None:
        last_words = str(cause or "none").rpartition("Error code is: ")[2]
        raise JobLost(f"job {job} left no result; it was killed, or never started. Exit code: {last_words}") from None
    if outcome["exit_code"] in (DONE, DONE_WITH_REJECTS):
        return
    if outcome.get("kind") == RUNNER_BUSY:
        raise AirflowSkipException(outcome["error"])
    kind = JobRefused if outcome["exit_code"] == REFUSED else JobFailed
    raise kind(f"job {job} ended with {outcome['exit_code']}: {outcome['error']}") from None


def _master(connection_id: str) -> str:
    """Spark's master; without the connection the provider would quietly take YARN."""
    try:
        connection = BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise JobRefused(
            f"no connection {connection_id!r}: add it in Airflow (Admin, Connections; type Spark, host e.g. local[2])"
        ) from None
    return f"{connection.conn_type}://{connection.host}"
