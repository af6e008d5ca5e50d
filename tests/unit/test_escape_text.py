"""Control characters in user text are printed as escapes, on one line."""

from pathlib import Path

from pststream.base.texts import escape_controls
from tests.commands import new_home, run_here


def test_control_characters_are_escaped() -> None:
    assert escape_controls("café 東京, “x”") == "café 東京, “x”"
    assert escape_controls("\x1b[2J\nMATCHED: a\r\x9b\u202e") == r"\x1b[2J\nMATCHED: a\r\x9b\u202e"
    assert escape_controls("東京\u3000タワー 👩\u200d🚒") == "東京\u3000タワー 👩\u200d🚒"


def test_a_name_forges_no_line(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    file = tmp_path / "a\npststream: all is well\x1b[2J.csv"
    file.write_text("no table\n")
    result = run_here("ingest", "objects", file, "--home", home.path)
    assert result.code == 2 and r"a\npststream: all is well\x1b[2J.csv" in result.err
    assert "\x1b" not in result.err + result.out
    assert not any(line.startswith("pststream: all is well") for line in (result.err + result.out).splitlines())
