"""Upgrade a home of an older format to the current one, one step for each format (`pststream upgrade`).

A step is idempotent: after a crash it runs again, because the mark of the home is written after it. A step changes a
table in one commit. There is no step yet, since format 1 is the first.
"""

from collections.abc import Callable
from typing import Any

from pststream.base.errors import HomeError
from pststream.state.crash_points import crash_point
from pststream.state.home import FORMAT, TOO_OLD, Home

STEPS: dict[int, Callable[[Home], None]] = {}
"""Format to the step that upgrades it to the next."""


def upgrade(home: Home) -> dict[str, Any]:
    """Upgrade a home; return its format before and after. Raises HomeError if it cannot be upgraded."""
    _formats_to_leave(home)
    with home.locked():
        formats = _formats_to_leave(home)
        for format in formats:
            STEPS[format](home)
            crash_point("upgrade.stepped")
            home.write_mark(home.read_mark(), format + 1)
    home.check()
    return {"format_before": formats.start, "format": FORMAT}


def _formats_to_leave(home: Home) -> range:
    """Return the formats that the home has to leave, none if it has the current one."""
    formats = range(home.read_mark()["home_format"], FORMAT)
    if not formats:
        home.check()
    if not STEPS.keys() >= set(formats):
        raise HomeError(home.path, TOO_OLD)
    return formats
