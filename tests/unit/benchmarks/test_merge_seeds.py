"""Documents of several seeds are shown together, with the spread of each figure."""

from typing import Any

from pststream.benchmarks.merge_seeds import merge_seeds
from pststream.benchmarks.results_page import render


def _document(seed: int, figures: dict[str, Any], met: bool) -> dict[str, Any]:
    return {
        "name": "kernel", "scale": "full", "seed": seed, "seconds": 10.0 * seed, "floor": {}, "figures": figures,
        "machine": {"cores": 2, "memory_gb": 1.0, "processor": "x", "python": "3", "random_read_ns": 9.0 + seed},
        "targets": {"a": {"target": 3, "met": met}}, "options": {"workloads": "q1"} if seed == 3 else {},
    }  # fmt: skip


def test_figures_that_differ_have_a_spread() -> None:
    documents = [
        _document(1, {"a": 1, "size": 7, "text": "x"}, True),
        _document(2, {"a": 5, "size": 7, "text": "y", "b": 2}, False),
        _document(3, {"a": 2, "size": 7, "text": "z", "none": None}, True),
    ]
    merged = merge_seeds(documents)
    assert merged["figures"] == {"a": [2, 1, 5], "size": 7, "text": "x or y or z", "b": 2, "none": None}
    assert merged["targets"] == {"a": {"target": 3, "met": False}}
    assert merge_seeds(documents[:1]) is documents[0]
    page = render(documents)
    assert page.count("## kernel") == 1
    assert "| `a` | 2 (1 to 5) | 3: **missed** |" in page
    assert "pststream bench run kernel --scale full --seed 3 --workloads q1 --json" in page
    assert "10.0 to 12.0 ns per random read; 10 to 30 s." in page


def test_ratios_of_the_paper_are_of_each_seed() -> None:
    seeds = []
    for seed, throughput in ((1, 300), (2, 100), (3, 200)):
        figures = {"q1_grid_throughput": throughput, "q1_frequency_throughput": 100}
        seeds.append(_document(seed, figures, True) | {"name": "paper-job"})
    assert "| 6 | q1 | throughput | grid over frequency | 2.09 | 2.0 (1.0 to 3.0) |" in render(seeds)


def test_figures_of_one_figure_of_the_paper_are_a_table() -> None:
    figures = {
        "subscriptions": 9,
        "q3_workload": "Q3, as the paper",
        "q3_hybrid_4_workers_throughput": 1_000,
        "q3_hybrid_4_workers_max_over_mean": 1.5,
        "q3_metric_32_workers_throughput": 7,
        "a": 5,
    }
    page = render([_document(1, figures, True) | {"name": "scalability"}])
    assert "9 subscriptions.\n\nQ3, as the paper.\n\n| planner | throughput | max over mean |" in page
    assert "| hybrid, 4 workers | 1,000 | 1.5 |" in page and "| metric, 32 workers | 7 | - |" in page
    assert "| figure | value | target |\n| --- | --- | --- |\n| `a` | 5 | 3: met |" in page


def test_real_objects_are_shown_apart_from_synthetic_ones() -> None:
    real = _document(1, {"a": 3}, True) | {"options": {"objects": "places.csv", "sha256": "0" * 64}}
    page = render([_document(2, {"a": 1}, True), real, _document(1, {"a": 2}, True)])
    assert page.index("## kernel\n") < page.index("## kernel, objects of places.csv\n")
    assert "| `a` | 1.5 (1 to 2) |" in page and "| `a` | 3 |" in page
    assert "pststream bench run kernel --scale full --seed 1 --objects places.csv --json" in page
