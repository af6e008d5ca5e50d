"""Read the options of a planner from a text such as `delta=0.3,objective=sum`; check that planners serve some kinds."""

import re
from collections.abc import Sequence
from contextlib import suppress

from pststream import names
from pststream.errors import SettingError, UsageError

_NAME = re.compile("[a-z][a-z_]*", re.ASCII)


def read_planner_options(text: str) -> dict[str, object]:
    """Return the options by name: whole numbers, other numbers and words; the planner checks names and values.

    Raises SettingError for a part that is not NAME=VALUE, and for a name that is given twice.
    """
    options: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (side.strip() for side in part.partition("="))
        if not _NAME.fullmatch(name) or not value:
            raise SettingError("planner_options", f"{part!r} is not NAME=VALUE", "for example delta=0.3,objective=sum")
        if name in options:
            raise SettingError("planner_options", f"{name!r} is given twice")
        options[name] = _value(value)
    return options


def _value(text: str) -> object:
    """Return a whole number, another number, or the text itself."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def check_planners(planners: Sequence[str], kinds: str) -> None:
    """Raise UsageError if one of some planners does not serve the kinds."""
    known = names.PLANNERS_OF[kinds]
    unknown = [name for name in planners if name not in known]
    if unknown:
        raise UsageError(f"planner {unknown[0]!r} does not serve {kinds}", "choose from: " + ", ".join(known))
