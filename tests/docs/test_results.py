"""The results page agrees with the benchmark documents."""

import json
from pathlib import Path

from pststream.benchmarks.results_page import PAGE, render

FOLDER = Path(__file__).parents[2] / "docs" / "results"


def test_the_page_is_up_to_date() -> None:
    documents = [json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    assert documents
    assert (FOLDER / PAGE).read_text("utf-8") == render(documents), (
        "run: python -m pststream.benchmarks.results_page docs/results"
    )


def test_a_missed_target_is_marked() -> None:
    document = {
        "name": "kernel", "scale": "full", "seed": 1, "seconds": 1.0, "floor": {},
        "machine": {"cores": 2, "memory_gb": 1.0, "processor": "x", "python": "3"},
        "figures": {"a": 1, "b": 2}, "targets": {"a": {"target": 3, "met": False}, "b": {"target": 1, "met": True}},
    }  # fmt: skip
    page = render([document])
    assert "| `a` | 1 | 3: **missed** |" in page
    assert "| `b` | 2 | 1: met |" in page
