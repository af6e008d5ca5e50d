"""A job that runs as a process of the task fails with the same errors as a submitted one, and can be killed."""

import logging
import os
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]


@pytest.mark.deep
def test_a_local_job_fails_as_a_spark_job_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream.airflow.runners import job_process
    from pststream.airflow.runners.job_outcome import JobLost, JobRefused

    with pytest.raises(JobRefused, match="does not exist"):
        job_process.run_job("check_balance", [f"--home={tmp_path}/nowhere"])
    (tmp_path / "mute.py").touch()
    monkeypatch.setattr(job_process, "JOBS", tmp_path)
    with pytest.raises(JobLost):
        job_process.run_job("mute", [])


def test_another_python_runs_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "other", symlinks=True)
    (tmp_path / "who.py").write_text("import sys; sys.exit(sys.prefix.endswith('/other') and 7)", "utf-8")
    python = tmp_path / "other" / "bin" / "python"
    code = (
        "from pathlib import Path; from pststream.airflow.runners.job_process import JobProcess, environment;"
        "_, error = JobProcess('who', {}).run([], Path('result'));"
        "print(environment()['PATH'], environment()['PYSPARK_PYTHON'], error)"
    )
    variables = {"PSTSTREAM_PYTHON": str(python), "PSTSTREAM_JOBS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    path, _, rest = done.stdout.strip().partition(" ")
    assert path.startswith(f"{python.parent}{os.pathsep}")
    assert rest.removeprefix(f"{python} ") == "Error code is: 7"


def test_killing_a_job_ends_it_without_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from pststream.airflow.runners import job_process

    script = "import sys, time; print('it runs', file=sys.stderr, flush=True); time.sleep(600)"
    (tmp_path / "long.py").write_text(script, "utf-8")
    monkeypatch.setattr(job_process, "JOBS", tmp_path)
    caplog.set_level(logging.INFO)
    process = job_process.JobProcess("long", {})
    threading.Thread(target=_kill_when, args=(lambda: "it runs" in caplog.text, process.kill)).start()
    outcome, cause = process.run([], tmp_path / "result.json")
    assert outcome is None
    assert "-9" in str(cause)

    outcome, cause = job_process.JobProcess("long", {}, seconds=1).run([], tmp_path / "result.json")
    assert outcome is None


def _kill_when(is_ready: Callable[[], bool], kill: Callable[[], None]) -> None:
    while not is_ready():
        time.sleep(0.05)
    kill()
