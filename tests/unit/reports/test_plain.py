"""What strangers write stays on its line of a terminal, and is shown."""

from pststream.reports.plain import plain


def test_what_would_move_a_terminal_is_shown() -> None:
    assert plain("café 東京, “x”") == "café 東京, “x”"
    assert plain("\x1b[2J\nMATCHED: a\r\x9b\u202e") == r"\x1b[2J\nMATCHED: a\r\x9b\u202e"
