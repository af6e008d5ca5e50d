"""A new shape of region is one module and one line of the registry: read, indexed, matched, explained, drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pststream.queries.shapes import registry
from pststream.queries.shapes.contract import RegionError
from pststream.reports.plots.plan_map import fit_view, region_path
from tests.command_process import ROOT
from tests.commands import Home, run_in_new_python
from tests.conformance import band_shape
from tests.conformance.other_tables import accept_tables
from tests.worlds import moment, write_rows

REGISTRY_LINE = """
from pststream.queries.shapes import registry
from tests.conformance import band_shape
registry.SHAPES = (*registry.SHAPES, band_shape)
"""
REQUEST = {"op": "insert", "keywords": "coffee OR tea", "created_at": moment(-1)}
REJECTED = [
    ({"band": 7}, "band", "not a list of two latitudes"),
    ({"band": [5, 91]}, "band", "north 91 is outside -90..90"),
    ({"band": [5, 4]}, "band", "south is greater than north"),
    ({"band": [5, 6], "bbox": [0, 0, 1, 1]}, "bbox", "bbox and band are given"),
    ({}, "bbox", "exactly one of bbox, circle, geometry or band"),
]
OBJECTS = [
    {"object_id": "inside", "lon": -170.0, "lat": 59.5, "text": "free coffee"},
    {"object_id": "on-the-edge", "lon": 18.0, "lat": 60.0, "text": "tea"},
    {"object_id": "outside", "lon": 18.0, "lat": 61.0, "text": "coffee"},
]


def test_a_new_shape_is_read_described_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SHAPES", (*registry.SHAPES, band_shape))
    region = registry.read_region({"band": [59, 60]})
    assert registry.contains(region, 0.0, 60.0) and not registry.contains(region, 0.0, 60.5)
    assert registry.outside(region, 0.0, 60.5) == "latitude 60.5 is not in the band from 59 to 60"
    assert registry.to_json(region) == {"band": [59.0, 60.0]}
    assert registry.pieces_of(region) == [(-180.0, 59.0, 180.0, 60.0)]
    assert region_path(region, fit_view(np.array([0.0, 1.0]), np.array([59.0, 60.0]))).startswith("M")
    for request, field, reason in REJECTED:
        with pytest.raises(RegionError, match=reason) as found:
            registry.read_region(request)
        assert found.value.field == field


@pytest.mark.slow
def test_the_pipeline_carries_a_new_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs `sitecustomize` when it starts, in the commands and in Spark's workers: it adds the registry line.

    Commands that only read run here.
    """
    monkeypatch.setattr(registry, "SHAPES", (*registry.SHAPES, band_shape))
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(REGISTRY_LINE)
    environment = {"PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}"}
    home, landing = tmp_path / "home", tmp_path / "landing"

    def run_apart(*arguments: str | Path) -> Any:
        result = run_in_new_python(*arguments, "--home", home, "--json", environment=environment)
        assert result.code == 0, result.err[-4000:]
        return result.json

    run = Home(home).run
    run_apart("init")
    accept_tables(home, monkeypatch)
    for kind in ("objects", "requests"):
        (landing / kind).mkdir(parents=True)
    requests = [REQUEST | {"subscription_id": "band", "band": [59, 60]}]
    requests += [REQUEST | {"subscription_id": f"bad-{n}"} | row[0] for n, row in enumerate(REJECTED)]
    write_rows(landing / "requests" / "r.jsonl", requests)
    write_rows(landing / "objects" / "o.jsonl", [row | {"ts": moment(0)} for row in OBJECTS])
    assert run_apart("run", landing)["match"]["matches"] == 2
    rejects = sorted(run("rejects")["rejects"], key=lambda row: row["row"])
    assert [row["field"] for row in rejects] == [row[1] for row in REJECTED]
    assert all(reason in row["detail"] for row, (_, _, reason) in zip(rejects, REJECTED, strict=True))

    matched, failed = run("explain", "on-the-edge", "band"), run("explain", "outside", "band")
    assert (matched["state"], matched["problem"]) == ("matched", None)
    assert (failed["condition"], failed["problem"]) == ("region", None)
