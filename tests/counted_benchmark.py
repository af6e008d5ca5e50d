"""Run a benchmark as `bench run` does, and check that it numbers its steps."""

from typing import Any

from benchmarks.registry import run_benchmark
from pststream.settings import Settings


def run_counted(name: str, scale: str = "small") -> dict[str, Any]:
    """Run a benchmark; return its document. Each step is logged with its number, and the last one is the last."""
    lines: list[str] = []
    document = run_benchmark(name, scale, 1, Settings(), lines.append)
    steps = [line.split(": ")[0] for line in lines if line.startswith("step ")]
    assert steps == [f"step {number} of {len(steps)}" for number in range(1, len(steps) + 1)] != []
    return document
