"""Every declared key accepts its default and the edges of its range, and refuses what is just beyond them."""

import math

import pytest

from pststream.base.errors import SettingError
from pststream.base.setting_key import SettingKey
from pststream.delivery.sinks.read_settings import sink_keys
from pststream.settings import setting_keys

KEYS = [*setting_keys(), *(key for key in sink_keys() if key.name != "kind")]


def step(key: SettingKey, number: float, towards: float) -> float:
    """The next value of the key's type."""
    return number + (1 if towards > number else -1) if isinstance(key.default, int) else math.nextafter(number, towards)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_defaults_and_edges(key: SettingKey) -> None:
    key.check_value(key.convert(str(key.default), key.name, ""), key.name)
    inside = [bound for bound in (key.least, key.greatest) if bound is not None]
    outside = [bound for bound in (key.above, key.below) if bound is not None]
    outside += [] if key.least is None else [step(key, key.least, -math.inf)]
    outside += [] if key.greatest is None else [step(key, key.greatest, math.inf)]
    for value in inside:
        key.check_value(value, key.name)
    for value in outside:
        with pytest.raises(SettingError) as caught:
            key.check_value(value, key.name)
        assert caught.value.name == key.name


@pytest.mark.parametrize(
    ("default", "value"),
    [(1, 1.0), (1, True), (1, "x"), (1, [1]), (1.0, "nan"), (1.0, None), (1.0, 10**400), ("x", 1), ("x", b"x")],
)
def test_values_of_another_type(default: object, value: object) -> None:
    with pytest.raises(SettingError, match="label: is not a"):
        SettingKey("key", default, "").convert(value, "label", "")


def test_a_value_is_quoted_only_where_its_source_is_named() -> None:
    key = SettingKey("key", 1, "")
    with pytest.raises(SettingError, match="'hidden' in the file is not a whole number"):
        key.convert("hidden", "key", f"{'hidden'!r} in the file ")
    with pytest.raises(SettingError) as caught:
        key.convert("hidden", "key", "")
    assert "hidden" not in str(caught.value)
