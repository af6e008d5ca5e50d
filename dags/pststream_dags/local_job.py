"""Run an entry of jobs/ that needs no Spark as a subprocess of the task, and return its JSON document."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pststream_dags import lineage
from pststream_dags.spark_job import JOBS, check_outcome, environment, read_outcome

SECONDS = 600


def run_job(job: str, arguments: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Run `jobs/<job>.py` with additional environment variables; return its JSON document. Raises as SparkJob does.

    The standard error of the job goes to the log of the task.
    """
    with tempfile.TemporaryDirectory(prefix="pststream-") as folder:
        file = Path(folder) / "result.json"
        command = [sys.executable, str(JOBS / f"{job}.py"), f"--result={file}", *arguments]
        process_environment = {**os.environ, **environment(), **variables}
        subprocess.run(command, env=process_environment, stdout=subprocess.DEVNULL, timeout=SECONDS, check=False)
        outcome = read_outcome(file)
    check_outcome(job, outcome, None)
    lineage.report_tables(job, arguments, run_job)
    return outcome["result"] if outcome else None
