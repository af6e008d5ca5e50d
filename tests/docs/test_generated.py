"""The generated parts of the documentation are up to date, and the results page marks what is missed."""

from benchmarks.results_page import render
from infra.generate_docs import generated_pages


def test_generated_pages_are_up_to_date() -> None:
    stale = [path.name for path, text in generated_pages().items() if path.read_text("utf-8") != text]
    assert stale == [], "run: make docs"


def test_targets_are_met_by_every_seed_or_missed() -> None:
    documents = {
        f"kernel-{seed}.json": {
            "name": "kernel", "seed": seed, "seconds": 1.0, "figures": {"a": seed, "b": 2},
            "targets": {"a": {"target": 3, "met": seed > 1}, "b": {"target": 1, "met": True}},
        }
        for seed in (1, 2)
    }  # fmt: skip
    page = render(documents)
    assert "|`kernel`|`a`|3|1.5 (1 to 2)|**missed**|" in page
    assert "|`kernel`|`b`|1|2|met|" in page
    assert "|`kernel`|seed [1](kernel-1.json), [2](kernel-2.json)|1|1|1|" in page
