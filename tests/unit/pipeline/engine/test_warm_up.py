"""A command says that it waits for the compiler where this node has no machine code of the kernels yet."""

from pathlib import Path

import pytest

from pststream.pipeline.engine import warm_up


def test_kernels_are_compiled_once_their_code_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up.load_kernels()
    assert warm_up.is_compiled("match_segment")
    assert not warm_up.is_compiled("no_such_kernel")
    monkeypatch.setattr(warm_up, "cache_folder", lambda: tmp_path / "none yet")
    assert not warm_up.is_compiled("match_segment")
