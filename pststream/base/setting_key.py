"""Declare a setting in one place (default, meaning, allowed values), and convert and check a value given for it.

This is not pydantic-settings, for three reasons. Importing it and declaring 45 keys takes 0.10 s, a quarter of the
0.43 s of `pststream status` on the same machine. It accepts `true` as a whole number. Its errors quote the value,
which may be a secret, and name neither the file nor the environment that the value came from.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from typing import Any

from pststream.base.errors import SettingError

_TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text"}


@dataclass(frozen=True)
class SettingKey:
    """A key of a settings table; its default gives its type.

    least, greatest   inclusive bounds of a number
    above, below      exclusive bounds of a number
    choices           the allowed texts; empty: any
    check             a further check of the value; raises SettingError
    """

    name: str
    default: Any
    meaning: str
    least: float | None = None
    greatest: float | None = None
    above: float | None = None
    below: float | None = None
    choices: Collection[str] = ()
    check: Callable[[Any], object] | None = None

    def convert(self, value: Any, label: str, quoted: str) -> Any:
        """Convert `value` to the type of the key.

        label    the key's full name in errors
        quoted   how errors show the value and its source, with a blank behind; empty where it may be a secret

        Raises SettingError.
        """
        kind = type(self.default)
        fault = SettingError(label, f"{quoted}is not {_TYPE_NAMES[kind]}")
        if isinstance(value, bool) or (kind is str and not isinstance(value, str)):
            raise fault
        if kind is int and isinstance(value, float):
            raise fault
        try:
            converted = kind(value)
        except (TypeError, ValueError, OverflowError):
            raise fault from None
        if kind is float and math.isnan(converted):
            raise fault
        return converted

    def check_value(self, value: Any, label: str) -> None:
        """Check a converted value against the bounds, the choices and the further check. Raises SettingError."""
        if self.choices and value not in self.choices:
            raise SettingError(label, f"{value!r} is unknown", "one of: " + ", ".join(self.choices))
        if self.least is not None and value < self.least:
            raise SettingError(label, f"{value} is less than {self.least:,}")
        if self.greatest is not None and value > self.greatest:
            raise SettingError(label, f"{value} is more than {self.greatest:,}")
        if self.above is not None and value <= self.above:
            raise SettingError(label, f"{value} is not above {self.above:,}")
        if self.below is not None and value >= self.below:
            raise SettingError(label, f"{value} is not below {self.below:,}")
        if self.check is not None:
            self.check(value)


def declare(default: Any, meaning: str, *, shown: bool = True, **rules: Any) -> Any:
    """Declare a field of a settings dataclass as a key; `rules` are further fields of SettingKey.

    shown: whether the dataclass's `repr` shows the value.
    """
    return field(default=default, repr=shown, metadata={"meaning": meaning} | rules)


def declared_keys(settings: type) -> list[SettingKey]:
    """Return the keys that a settings dataclass declares, in order."""
    return [SettingKey(f.name, f.default, **f.metadata) for f in fields(settings) if f.metadata]
