"""docs/settings.md says of every setting what `settings.py` declares.

After a change of the settings, `python -m tests.unit.state.test_settings_doc` rewrites that part of the page.
"""

from pathlib import Path
from typing import Any

from pststream import names
from pststream.settings import setting_keys
from pststream.sinks.read_settings import sink_keys

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"
SINKS = "Keys of a sink, in a table `[sinks.<name>]` ([Delivery](delivery.md)):"


def rendered() -> str:
    """The table of all settings."""
    head = ["| key | environment variable | default | meaning |", "|---|---|---|---|"]
    keys = [row(field, "PSTSTREAM_") for field in setting_keys()]
    of_sinks = [row(field, f"{names.SINK_VARIABLES}<NAME>_") for field in sink_keys()]
    return "\n".join([*head, *keys, "", SINKS, "", *head, *of_sinks]) + "\n"


def row(field: Any, prefix: str) -> str:
    """A row of a table of keys."""
    default = f'`"{field.default}"`' if isinstance(field.default, str) else f"`{field.default}`"
    meaning = field.meaning.replace("|", "\\|")
    return f"| `{field.name}` | `{prefix}{field.name.upper()}` | {default} | {meaning} |"


def test_the_page_says_what_is_declared() -> None:
    part = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert part.strip() == rendered().strip(), "run: python -m tests.unit.state.test_settings_doc"


def write_page() -> None:
    """Rewrite the generated part of the page."""
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{rendered()}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    write_page()
