"""A new kind of query is one module and one line of the registry: parsed, indexed, matched, explained, delivered."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pststream.input.parse_requests import parse_requests
from pststream.input.row_chunks import RecordChunk
from pststream.queries.kinds.registry import KINDS, fields_of_other_kinds, stored_kind
from tests.command_process import ROOT
from tests.commands import Home, run_here, run_in_new_python
from tests.conformance.other_tables import accept_tables
from tests.conformance.square_kind import SQUARE
from tests.worlds import moment, write_rows

REGISTRY_LINE = """
from pststream.queries.kinds.registry import KINDS
from tests.conformance.square_kind import SQUARE
KINDS[SQUARE.name] = SQUARE
"""
REQUEST = {"op": "insert", "keywords": "coffee OR tea", "created_at": moment(-1)}
SQUARE_REQUEST = REQUEST | {"kind": "square", "centre": [18.0, 59.0], "width": 2}
RANGE_REQUEST = REQUEST | {"bbox": [10, 50, 12, 52]}
REJECTED = [
    ({"width": None}, "width", "missing"),
    ({"width": 11}, "width", "out_of_range"),
    ({"keywords": "("}, "keywords", "unreadable_expression"),
    ({"bbox": [0, 0, 1, 1]}, "bbox", "field_of_another_kind"),
    ({"kind": "range", "bbox": [0, 0, 1, 1], "width": None}, "centre", "field_of_another_kind"),
    ({"kind": "cube"}, "kind", "unknown_kind"),
]
OBJECTS = [
    {"object_id": "inside", "lon": 18.5, "lat": 59.5, "text": "free coffee"},
    {"object_id": "outside", "lon": 19.5, "lat": 59.5, "text": "free coffee"},
    {"object_id": "wordless", "lon": 18.0, "lat": 59.0, "text": "milk"},
    {"object_id": "elsewhere", "lon": 11.0, "lat": 51.0, "text": "tea"},
]


@pytest.mark.parametrize(("changes", "field", "reason"), REJECTED)
def test_odd_requests_are_rejected(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], field: str, reason: str
) -> None:
    monkeypatch.setitem(KINDS, SQUARE.name, SQUARE)
    records = [SQUARE_REQUEST | {"subscription_id": "s"} | changes]
    accepted, rejected = parse_requests(RecordChunk("x", [1], records), datetime.now(UTC))
    (row,) = rejected.to_pylist()
    assert (len(accepted), row["field"], row["reason"]) == (0, field, reason)


def test_a_field_of_another_kind_is_no_payload_where_no_kind_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, SQUARE.name, SQUARE)
    records = [RANGE_REQUEST | {"subscription_id": "s", "width": 5}]
    _, rejected = parse_requests(RecordChunk("x", [1], records), datetime.now(UTC))
    assert rejected.column("reason").to_pylist() == ["field_of_another_kind"]
    others = fields_of_other_kinds(stored_kind("range"))
    assert (others["centre"], others["width"]) == (["square"], ["square"])


@pytest.mark.slow
def test_the_pipeline_carries_a_new_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs `sitecustomize` when it starts, in the commands and in Spark's workers: it adds the registry line.

    Commands that only read run here.
    """
    monkeypatch.setitem(KINDS, SQUARE.name, SQUARE)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(REGISTRY_LINE)
    environment = {"PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}"}
    home = tmp_path / "home"

    def run_apart(*arguments: str | Path) -> Any:
        result = run_in_new_python(*arguments, "--home", home, "--json", environment=environment)
        assert result.code == 0, result.err[-4000:]
        return result.json

    run = Home(home).run
    run_apart("init")
    accept_tables(home, monkeypatch)
    with open(home / "pststream.toml", "a") as file:
        file.write(f'\n[sinks.all]\nkind = "file"\ntarget = "{tmp_path / "sent"}"\n')
    for kind in ("objects", "requests"):
        (tmp_path / "landing" / kind).mkdir(parents=True)
    requests = [SQUARE_REQUEST | {"subscription_id": "square"}, RANGE_REQUEST | {"subscription_id": "range"}]
    requests += [SQUARE_REQUEST | {"subscription_id": f"bad-{n}"} | row[0] for n, row in enumerate(REJECTED)]
    write_rows(tmp_path / "landing" / "requests" / "r.jsonl", requests)
    write_rows(tmp_path / "landing" / "objects" / "o.jsonl", [row | {"ts": moment(0)} for row in OBJECTS])
    summary = run_apart("run", tmp_path / "landing")
    assert summary["match"]["matches"] == 2
    assert summary["deliver"]["sinks"]["all"]["state"] == "ok", summary["deliver"]
    rejects = sorted(run("rejects")["rejects"], key=lambda row: row["row"])
    assert [(row["field"], row["reason"]) for row in rejects] == [row[1:] for row in REJECTED]

    messages = [json.loads(line) for file in (tmp_path / "sent").iterdir() for line in file.read_text().splitlines()]
    by_subscription = {message["subscription"]["subscription_id"]: message for message in messages}
    assert by_subscription["square"]["object"]["object_id"] == "inside"
    assert by_subscription["square"]["subscription"]["width"] == 2.0
    assert by_subscription["square"]["words"] == ["coffee"]
    assert "width" not in by_subscription["range"]["subscription"]

    explanation = run("explain", "inside", "square")
    assert (explanation["state"], explanation["problem"]) == ("matched", None)
    assert explanation["pairs"][0]["posting"]["word"] == "coffee"
    subscription = explanation["pairs"][0]["subscription"]
    assert (subscription["kind"], subscription["width"]) == ("square", 2.0)
    assert run("explain", "outside", "square")["condition"] == "square"
    assert run("explain", "wordless", "square")["condition"] == "keywords"
    assert "square of 2 degrees" in run_here("explain", "outside", "square", "--home", home).out
    assert run_apart("check")["success"]
    run("report", "--out", tmp_path / "report.html")
    assert "inside" in (tmp_path / "report.html").read_text()
