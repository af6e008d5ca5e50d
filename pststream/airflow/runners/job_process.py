"""Run an entry of jobs/ as a process of the task's machine, and return its outcome or its JSON document."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from types import MappingProxyType
from typing import Any

from airflow.sdk.exceptions import AirflowException

from pststream.airflow.runners import lineage
from pststream.airflow.runners.allowed_places import admit
from pststream.airflow.runners.job_log import JSON_LINES, log_line, log_result
from pststream.airflow.runners.job_outcome import check_outcome, read_outcome
from pststream.airflow.runners.run_environment import run_environment
from pststream.base import names

JOBS = Path(os.environ.get("PSTSTREAM_JOBS") or Path(names.__file__).resolve().parents[2] / "jobs")
"""The folder of the package `jobs`, which is installed next to `pststream`."""

PYTHON = os.environ.get("PSTSTREAM_PYTHON") or sys.executable
"""The Python that runs the jobs."""


class JobProcess:
    """Runs `jobs/<job>.py` with PYTHON. The lines of its standard error go to the log of the task, at their levels.

    variables  environment variables besides those of the task
    seconds    time after which the process is killed; None: no limit
    """

    def __init__(self, job: str, variables: Mapping[str, str], seconds: float | None = None) -> None:
        self._script = JOBS / f"{job}.py"
        self._environment = {**os.environ, **variables, **JSON_LINES}
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None

    def run(self, arguments: Sequence[str], result: Path) -> tuple[dict[str, Any] | None, Exception | None]:
        """Run the job; return its outcome, None if it left none, and its exit code as an error if that is not 0."""
        command = [PYTHON, str(self._script), f"--result={result}", *arguments]
        self._process = subprocess.Popen(
            command,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        limit = Timer(self._seconds, self.kill) if self._seconds is not None else None
        try:
            if limit is not None:
                limit.start()
            for line in self._process.stderr or ():
                log_line(line.rstrip("\n"))
            code = self._process.wait()
        finally:  # the timeout of the task interrupts the reading
            if limit is not None:
                limit.cancel()
            self.kill()
        return read_outcome(result), AirflowException(f"Error code is: {code}") if code else None

    def kill(self) -> None:
        """Kill the process if it runs. The JVM that it may have started ends with it."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def environment() -> dict[str, str]:
    """Return the environment of a job on this machine: its Python, its spark-submit, its submitters' ids."""
    binaries = str(Path(PYTHON).parent)
    return {
        "PATH": os.pathsep.join([binaries, os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(JOBS.parent), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", PYTHON),
        "PSTSTREAM_SUBMITTERS": f"{os.getpid()},{os.getppid()}",
    }


SECONDS = 600


def run_job(
    job: str,
    arguments: Sequence[str],
    variables: Mapping[str, str] = MappingProxyType({}),
    aws_conn_id: str | None = None,
) -> Any:
    """Run `jobs/<job>.py` with additional environment variables; return its JSON document. Raises as SparkJob does."""
    place = admit(arguments)
    with run_environment(place, aws_conn_id), tempfile.TemporaryDirectory(prefix="pststream-") as folder:
        process = JobProcess(job, {**environment(), **variables}, SECONDS)
        outcome, cause = process.run(place.arguments, Path(folder) / "result.json")
    check_outcome(job, outcome, cause)
    lineage.report_tables(job, place.arguments, run_job)
    assert outcome is not None
    log_result(job, outcome["result"])
    return outcome["result"]
