"""A command says that it waits for the compiler where this node has no machine code of the kernels yet."""

from pathlib import Path

import pytest

from pststream.base.progress import no_progress
from pststream.engine import warm_up
from pststream.pipeline.batch import micro_batch
from pststream.pipeline.calibrate.measured_homes import BenchHome
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle


def test_kernels_are_compiled_once_their_code_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up.load_kernels()
    assert warm_up.is_compiled("matching", "match_segment")
    assert not warm_up.is_compiled("matching", "no_such_kernel")
    monkeypatch.setattr(warm_up, "cache_folder", lambda: tmp_path / "none yet")
    assert not warm_up.is_compiled("matching", "match_segment")


def test_a_batch_says_that_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = BenchHome(str(tmp_path / "home"), 1, no_progress)
    bench.add_subscriptions(10, SubscriptionStyle())
    lines: list[str] = []
    for compiled in (False, True):
        monkeypatch.setattr(micro_batch, "is_compiled", lambda *_, compiled=compiled: compiled)
        bench.add_objects(10)
        lines.clear()
        micro_batch.match(bench.home, Settings(engine="local"), progress=lines.append)
        assert (micro_batch.COMPILING in lines) is not compiled
    lines.clear()
    monkeypatch.setattr(micro_batch, "is_compiled", lambda *_: False)
    micro_batch.match(bench.home, Settings(engine="local"), progress=lines.append)
    assert micro_batch.COMPILING not in lines, "nothing is pending"
