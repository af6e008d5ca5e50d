"""docs/quality.md lists every reason for rejecting a row."""

from pathlib import Path

from pststream.quality.reject_reasons import REASONS

PAGE = Path(__file__).parents[3] / "docs" / "quality.md"


def test_the_page_lists_every_reason() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    documented = {cells[0].strip("`"): cells[1] for cells in rows if len(cells) == 2}
    assert documented == REASONS
