"""What passes without a question. Questions and answers are asked of the real scheduler (tests/e2e)."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import DAGS, ROOT

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home")]


def passed(after: int, **params: bool) -> Any:
    from pststream_dags.adjusting import Approval

    summary = {"plan_version_before": 3, "plan_version": after, "reason": "measured imbalance 1.1"}
    operator = Approval(task_id="approve", summary=summary)
    return operator.execute({"params": {"dry_run": False, "approval": False, **params}})


def test_a_change_passes_if_nobody_is_to_be_asked() -> None:
    assert passed(4) is None


@pytest.mark.parametrize("approval", [False, True])
def test_nothing_to_apply_and_dry_runs_end_here_unasked(approval: bool) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="nothing to apply: measured imbalance 1.1"):
        passed(3, approval=approval)
    with pytest.raises(AirflowSkipException, match="dry run"):
        passed(4, dry_run=True, approval=approval)


@pytest.mark.parametrize(("said", "asks"), [("", "False"), ("true", "True")])
def test_off_unless_the_environment_says_so(airflow_home: Path, said: str, asks: str) -> None:
    code = "from pststream_dags.adjusting import APPROVAL; print(APPROVAL.value)"
    environment = {**os.environ, "PSTSTREAM_APPROVAL": said, "PYTHONPATH": f"{DAGS}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == asks
