"""Runs of batches and ingests are sent as events where that is configured."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from openlineage.client.naming.dataset import S3, LocalFileSystem

from pststream.base import lineage, lineage_events, names
from pststream.base.lineage import LineageDataset
from pststream.state.home import Home
from pststream.state.ledger_tables import lineage_table
from pststream.state.tables import TABLES
from tests.openlineage_schema import check_event

HOME = Home("/home/x")
INPUTS = [lineage_table(HOME, names.OBJECTS), LineageDataset("s3://bucket/a/b.csv")]
RUN = (HOME.path, "match", 7, INPUTS, [lineage_table(HOME, names.MATCHES, "matches"), lineage_table(HOME, names.PLANS)])


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
    """Return the events, each of which is valid."""
    sent = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for event in sent:
        check_event(event)
    return sent


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
    assert [one["name"] for one in done["outputs"]] == ["/home/x/tables/matches", "/home/x/tables/plans"]
    facet = done["run"]["facets"]["pststream_ledger"]
    assert (facet["home"], facet["step"], facet["number"], facet["figures"]) == ("/home/x", "match", 7, {"matches": 3})
    parent = done["run"]["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (
        "01900000-0000-7000-8000-000000000001",
        "micro_batch.match",
    )
    assert start["run"]["runId"] == done["run"]["runId"]


def test_a_table_has_its_columns_and_the_rows_written_where_they_are_known(events: Path) -> None:
    with lineage.record_run(*RUN) as figures:
        figures |= {"matches": 3, "seconds": {"match": 0.5}, "plan_version": None}
    start, done = read(events)
    objects, file = done["inputs"]
    assert [field["name"] for field in objects["facets"]["schema"]["fields"]] == TABLES[names.OBJECTS].schema.names
    [ts] = [field for field in objects["facets"]["schema"]["fields"] if field["name"] == "ts"]
    assert ts["type"] == "timestamp" and ts["description"] and ts["ordinal_position"] > 1
    assert "schema" not in file.get("facets", {})
    matches, plans = done["outputs"]
    assert matches["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert not plans.get("outputFacets") and not start["outputs"][0].get("outputFacets")


@pytest.mark.parametrize("name", TABLES)
def test_each_table_of_a_home_can_be_described(name: str) -> None:
    assert len(lineage_table(HOME, name).columns) == len(TABLES[name].columns)


def test_a_table_has_one_identity_by_the_naming_of_openlineage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    local = LocalFileSystem(f"{tmp_path}/h/tables/objects")
    for home in ("h", "./h", f"{tmp_path}/h/", f"{tmp_path}/other/../h"):
        identity = lineage_events.dataset_name(Home(home).table("objects"))
        assert identity == (local.get_namespace(), local.get_name())
    bucket = S3("bucket", "team/h/tables/objects")
    for home in ("s3://bucket/team/h", "s3a://bucket/team/h/"):
        identity = lineage_events.dataset_name(Home(home).table("objects"))
        assert identity == (bucket.get_namespace(), bucket.get_name())
    assert lineage_events.dataset_name("s3://bucket/a?b#c.csv") == ("s3://bucket", "a?b#c.csv")


@pytest.mark.parametrize("parent", ["", "default/task", "default/task/manual__2026-01-01", "a/b/c/not-a-uuid"])
def test_a_parent_that_is_no_run_of_openlineage_is_left_out(
    events: Path, monkeypatch: pytest.MonkeyPatch, parent: str
) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", parent)
    with lineage.record_run(*RUN):
        pass
    assert [set(event["run"]["facets"]) for event in read(events)] == [{"pststream_ledger", "tags"}] * 2


def test_what_is_not_valid_is_recognised(events: Path) -> None:
    with lineage.record_run(*RUN):
        pass
    for change in (
        lambda event: event.pop("producer"),
        lambda event: event.update(producer="pststream"),
        lambda event: event.update(eventTime="2026-01-01"),
        lambda event: event["run"].update(runId="7"),
        lambda event: event["run"]["facets"]["pststream_ledger"].update(step="plan"),
        lambda event: event["run"]["facets"]["pststream_ledger"].pop("_schemaURL"),
        lambda event: event["inputs"][0]["facets"]["schema"].update(fields=[{"type": "int"}]),
        lambda event: event["outputs"][0].pop("namespace"),
    ):
        event = read(events)[-1]
        change(event)
        with pytest.raises((jsonschema.ValidationError, AssertionError, KeyError)):
            check_event(event)


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
    program = "import sys, pststream.cli.main, pststream.base.lineage; sys.exit('openlineage' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_log_has_no_secret_of_the_url_that_events_go_to(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://user:s3cr3t@127.0.0.1:1/?key=s3cr3t")
    monkeypatch.setenv("OPENLINEAGE_ENDPOINT", "api/v1?key=s3cr3t")
    monkeypatch.setattr(lineage, "_failed_at", [])
    lineage_events._client.cache_clear()
    with lineage.record_run(*RUN):
        pass
    lineage_events._client.cache_clear()
    assert "no lineage of match 7" in caplog.text
    assert "s3cr3t" not in caplog.text
