"""Runs of batches and ingests are sent as events where that is configured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pststream import lineage, lineage_events

RUN = ("/home/x", "match", 7, ["/home/x/tables/objects", "s3://bucket/a/b.csv"], ["/home/x/tables/matches"])


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that events go to; OpenLineage's own variables say so."""
    file = tmp_path / "lineage.jsonl"
    for name, value in (("TYPE", "file"), ("LOG_FILE_PATH", str(file)), ("APPEND", "true")):
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    lineage_events._client.cache_clear()
    monkeypatch.setattr(lineage, "_failed_at", [])
    return file


def read(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_a_run_is_sent_with_its_inputs_outputs_and_figures(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", "default/micro_batch.match/01900000-0000-7000-8000-000000000001")
    with lineage.record_run(*RUN) as figures:
        figures["matches"] = 3
    start, done = read(events)
    assert [start["eventType"], done["eventType"]] == ["START", "COMPLETE"]
    assert [(one["namespace"], one["name"]) for one in done["inputs"]] == [
        ("file", "/home/x/tables/objects"),
        ("s3://bucket", "a/b.csv"),
    ]
    assert [one["name"] for one in done["outputs"]] == ["/home/x/tables/matches"]
    facet = done["run"]["facets"]["pststream"]
    assert (facet["home"], facet["step"], facet["number"], facet["figures"]) == ("/home/x", "match", 7, {"matches": 3})
    parent = done["run"]["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (
        "01900000-0000-7000-8000-000000000001",
        "micro_batch.match",
    )
    assert start["run"]["runId"] == done["run"]["runId"]


def test_a_run_that_fails_and_is_tried_again_is_one_run(events: Path) -> None:
    with pytest.raises(ZeroDivisionError), lineage.record_run(*RUN):
        raise ZeroDivisionError
    with lineage.record_run(*RUN):
        pass
    sent = read(events)
    assert [one["eventType"] for one in sent] == ["START", "FAIL", "START", "COMPLETE"]
    assert len({one["run"]["runId"] for one in sent}) == 1


def test_an_event_that_cannot_be_sent_stops_nothing(
    events: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(events / "no" / "such" / "folder"))
    with lineage.record_run(*RUN) as figures:
        figures["matches"] = 3
    assert caplog.text.count("no lineage of match 7") == 1, "the second event waits for nobody"
    lineage._failed_at[0] -= lineage.SILENCE_SECONDS
    with lineage.record_run(*RUN):
        pass
    assert caplog.text.count("no lineage of match 7") == 2


def test_nothing_is_sent_nor_imported_unless_it_is_configured(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    with lineage.record_run(*RUN):
        pass
    assert not events.exists()
    program = "import sys, pststream.cli.main, pststream.lineage; sys.exit('openlineage' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
