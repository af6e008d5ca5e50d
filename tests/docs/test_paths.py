"""The modules and tests that the documentation names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*\w/?)`")
ROOMS = {path.name for path in (ROOT / "pststream").iterdir()} | {"pststream", "tests", "dags", "jobs", "infra"}


def named_paths(document: Path) -> list[str]:
    """The paths in backticks that begin with a folder of the project or a room of the package."""
    paths = PATH.findall(document.read_text("utf-8"))
    return [path for path in paths if path.partition("/")[0] in ROOMS]


def test_paths_are_recognised(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "`state/home.py`, `tests/docs` and `tests/old.py`, not `a/b`, `objects/`, `s3://bucket/x`.", "utf-8"
    )
    assert named_paths(document) == ["state/home.py", "tests/docs", "tests/old.py"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_paths_exist(document: Path) -> None:
    missing = [
        path
        for path in named_paths(document)
        if not (ROOT / path).exists() and not (ROOT / "pststream" / path).exists()
    ]
    assert not missing
