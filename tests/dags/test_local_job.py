"""A job without Spark fails with the same errors as a Spark job."""

from pathlib import Path

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]


def test_a_local_job_fails_as_a_spark_job_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pststream_dags import local_job
    from pststream_dags.job_outcome import JobLost, JobRefused

    with pytest.raises(JobRefused, match="does not exist"):
        local_job.run_job("balance", ["check", f"--home={tmp_path}/nowhere"])
    (tmp_path / "mute.py").touch()
    monkeypatch.setattr(local_job, "JOBS", tmp_path)
    with pytest.raises(JobLost):
        local_job.run_job("mute", [])
