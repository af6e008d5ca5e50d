"""docs/settings.md says of every setting what `settings.py` declares.

After a change of the settings, `python -m tests.unit.state.test_settings_doc` writes that part of the page anew.
"""

from dataclasses import fields
from pathlib import Path

from pststream.settings import Settings

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"


def rendered() -> str:
    """The table of all settings."""
    lines = ["| key | environment variable | default | meaning |", "|---|---|---|---|"]
    for field in fields(Settings):
        default = f'`"{field.default}"`' if isinstance(field.default, str) else f"`{field.default}`"
        meaning = field.metadata["meaning"].replace("|", "\\|")
        lines.append(f"| `{field.name}` | `PSTSTREAM_{field.name.upper()}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def test_the_page_says_what_is_declared() -> None:
    part = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert part.strip() == rendered().strip(), "run: python -m tests.unit.state.test_settings_doc"


def write_page() -> None:
    """Write the part anew."""
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{rendered()}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    write_page()
