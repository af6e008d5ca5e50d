"""The modules and tests that the documentation names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PATH = re.compile(r"`((?:pststream|benchmarks|tests|dags|jobs|infra)/[\w./-]*\w)/?`")


def test_paths_are_recognised() -> None:
    text = "`pststream/state/home.py`, `tests/docs/` and `tests/old.py`, not `a/b`, `objects/`, `s3://bucket/x`."
    assert PATH.findall(text) == ["pststream/state/home.py", "tests/docs", "tests/old.py"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_paths_exist(document: Path) -> None:
    assert [path for path in PATH.findall(document.read_text("utf-8")) if not (ROOT / path).exists()] == []
