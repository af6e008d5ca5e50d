"""A home of an older format becomes one of this format, step by step, each step from one format to the next.

A step may run twice: killed before the mark is written, it is run again. What a step changes only adds to the tables,
so that the version that made the home could still read it, had the mark not changed. tests/samples keeps a home of
each older format.
"""

import json
from collections.abc import Callable
from typing import Any

from deltalake import Field
from deltalake.schema import PrimitiveType

from pststream import names
from pststream.delta_tables import open_table
from pststream.state.crash_points import crash_point
from pststream.state.home import FORMAT, MARK, OLDEST, Home


def upgrade(home: Home) -> dict[str, Any]:
    """Bring a home to this format; returns the format before and now. Raises HomeError for what cannot be upgraded."""
    _mark(home)
    with home.locked():
        found = _mark(home)
        before = found["format"]
        for format in range(before, FORMAT):
            STEPS[format](home)
            crash_point("upgrade.stepped")
            home.mark(found | {"format": format + 1})
    home.check()
    return {"format_before": before, "format": FORMAT}


def _mark(home: Home) -> dict[str, Any]:
    """The mark of a home that is of this format or can be upgraded."""
    try:
        found: dict[str, Any] = json.loads(home.files.read(MARK))
        upgradable = OLDEST <= found["format"] < FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        upgradable = False
    if not upgradable:
        home.check()
    return found


def _quarantine_and_quality(home: Home) -> None:
    """2 to 3: tables of the landing gate and of the results of checks."""
    home.make_tables((names.QUARANTINE, names.QUALITY_RESULTS))


def _delivery(home: Home) -> None:
    """3 to 4: places of sinks, and dead letters."""
    home.make_tables((names.DELIVERIES, names.DEAD_LETTERS))


def _two_plans(home: Home) -> None:
    """4 to 5: `plans` names the plan that is retired while a newer one is in force."""
    table = open_table(home.table(names.PLANS))
    known = {field.name for field in table.schema().fields}
    for name in ("retiring_version", "retiring_to"):
        if name not in known:
            column = Field(name, PrimitiveType("long"))
            table.alter.add_columns([column], commit_properties=home.commit_properties(table))


STEPS: dict[int, Callable[[Home], None]] = {2: _quarantine_and_quality, 3: _delivery, 4: _two_plans}
"""Format to the step that leads from it to the next."""
