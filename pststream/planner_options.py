"""Read the options of a planner from a text such as `delta=0.3,objective=sum` (a setting, or `plan --option`)."""

import re
from contextlib import suppress

from pststream.errors import SettingError

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
