"""The lines of a job have their level in the log of the task, and its result is one line."""

import logging
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_home", "loaded")]


@pytest.fixture
def loaded(airflow_home: Path) -> None:
    """Load Airflow, which sets up its own log, before a test records the log."""
    from pststream.airflow.runners import job_process  # noqa: F401


SCRIPT = """
import sys
from pststream.base.stderr_log import StderrLog
from pststream.base.progress import LogMessage
log = StderrLog("match", quiet=False)
log.log_progress(LogMessage("batch 3 done", batch_id=3))
log.log_progress(LogMessage("round failed", level="warning"))
log.log_error("home h: is not there")
print("26/11/23 15:45:22 WARN TaskSetManager: Lost task", file=sys.stderr)
print('{"level": "info"', file=sys.stderr)
print('{"level": "loud", "message": "x"}', file=sys.stderr)
"""


def test_each_line_of_a_job_has_its_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from pststream.airflow.runners import job_log, job_process

    (tmp_path / "speaks.py").write_text(SCRIPT, "utf-8")
    environment = job_process.environment()
    monkeypatch.setattr(job_process, "JOBS", tmp_path)
    caplog.set_level(logging.INFO, job_log.log.name)
    job_process.JobProcess("speaks", environment).run([], tmp_path / "result.json")
    assert [(record.levelname, record.message) for record in caplog.records if record.name == job_log.log.name] == [
        ("INFO", "batch 3 done"),
        ("WARNING", "round failed"),
        ("ERROR", "home h: is not there"),
        ("WARNING", "26/11/23 15:45:22 WARN TaskSetManager: Lost task"),
        ("INFO", '{"level": "info"'),
        ("INFO", '{"level": "loud", "message": "x"}'),
    ]


SINK = {"kind": "webhook", "delivered": 12, "refused": 0, "batches_left": 0, "reason": None}
INGEST = {"files": 1, "accepted": 8, "rejected": 0, "rejects_by_reason": {}, "quarantined": []}


@pytest.mark.parametrize(
    ("job", "document", "level", "text"),
    [
        ("deliver", {"sinks": {"hook": SINK | {"state": "ok"}}}, "INFO", "hook (webhook): ok, 12 delivered, 0 refused"),
        (
            "deliver",
            {"sinks": {"hook": SINK | {"state": "down", "batches_left": 2, "reason": "503"}}},
            "WARNING",
            "hook (webhook): down, 12 delivered, 0 refused, 2 batches left, 503",
        ),
        ("ingest", INGEST, "INFO", "1 file ingested, 8 rows accepted"),
        (
            "ingest",
            INGEST | {"rejected": 3, "rejects_by_reason": {"late": 2, "duplicate": 1}, "quarantined": [{}]},
            "WARNING",
            "1 file ingested, 8 rows accepted, 3 rejected (2 late, 1 duplicate), 1 file quarantined",
        ),
        ("quarantine", {"discarded": [{}, {}]}, "INFO", "2 files discarded"),
        ("pairs", None, "INFO", "nothing to do: the setting pairs_table is never"),
        (
            "pairs",
            {"batch_from": 1, "batch_to": 3, "rows": 10, "deleted": 1},
            "INFO",
            "batch 1 to 3: 10 rows, 1 retracted",
        ),
        ("term_statistics", {"version": 3, "objects": 10, "terms": 1}, "INFO", "version 3: 10 objects with 1 term"),
        (
            "check_tables",
            {"checks": [{"check": "ledgers", "failed": []}, {"check": "index", "failed": ["x"]}]},
            "ERROR",
            "1 of 2 checks failed: index",
        ),
        (
            "check_balance",
            {"plan_version": 3, "batches": 8, "measured_imbalance": 1.25, "sigma": 1.5, "violated": False},
            "INFO",
            "plan 3, 8 batches: imbalance 1.25, balanced, or too few batches to be sure",
        ),
        (
            "replay",
            {"batches": 8, "last_batch": 20, "matches_equal": True},
            "INFO",
            "8 batches up to 20 replayed: the same matches",
        ),
        (
            "replay",
            {"batches": 8, "last_batch": 20, "matches_equal": True, "answers_equal": False},
            "ERROR",
            "batches up to 20 replayed: the same matches, OTHER answers than recorded",
        ),
        ("ask", {"kind": "knn", "rows": 500, "more": True, "seconds": 0.5}, "INFO", "knn: more than 500 rows in 0.5 s"),
        ("answer_questions", {"files": 0}, "INFO", "no file of questions is new"),
        (
            "answer_questions",
            {"files": 1, "questions": 30, "rejected": 2, "rows": 1234},
            "WARNING",
            "1 file: 30 questions, 2 rejected, 1,234 rows of answers",
        ),
        ("match", {"unexpected": 1}, "INFO", "done"),
        ("unknown", None, "INFO", "done"),
    ],
)
def test_a_result_is_one_line(job: str, document: Any, level: str, text: str) -> None:
    from pststream.airflow.runners.job_log import describe_result

    found = describe_result(job, document)
    assert (logging.getLevelName(found[0]), found[1]) == (level, text)
