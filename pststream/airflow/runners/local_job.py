"""Run an entry of jobs/ that needs no engine as a subprocess of the task, and return its JSON document."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pststream.airflow.runners import lineage
from pststream.airflow.runners.allowed_places import admit
from pststream.airflow.runners.job_log import log_result
from pststream.airflow.runners.job_outcome import check_outcome
from pststream.airflow.runners.job_process import JobProcess, environment
from pststream.airflow.runners.run_environment import run_environment

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
