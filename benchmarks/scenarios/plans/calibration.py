"""Benchmark the calibration of the load model: its constants on this machine, and how well they predict."""

from typing import Any

from benchmarks.support.targets import at_least, at_most
from pststream.base.progress import Progress
from pststream.pipeline.calibrate.calibrate import KINDS, calibrate
from pststream.settings import Settings


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Calibrate the load model, as `pststream plans calibrate` does, and compare its errors with the targets."""
    figures = calibrate(scale, seed, settings, progress)
    targets = {f"{kind}_correlation": at_least(figures[f"{kind}_correlation"], 0.95) for kind in KINDS}
    targets |= {f"{kind}_total_error": at_most(figures[f"{kind}_total_error"], 0.15) for kind in KINDS}
    return {"figures": figures, "floor": {}, "targets": targets}
