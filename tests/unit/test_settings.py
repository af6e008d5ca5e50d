"""Settings: their sources, the edges of each, and refused values."""

import math

import pytest

from pststream.base.errors import SettingError
from pststream.base.setting_key import SettingKey
from pststream.delivery.sinks.registry import sink_keys
from pststream.settings import FILE, Settings, default_file, load_settings, read_planner_options, setting_keys


def test_the_new_file_is_the_defaults(tmp_path):
    (tmp_path / FILE).write_text(default_file())
    assert load_settings(tmp_path) == Settings()


def test_argument_over_environment_over_file(tmp_path, monkeypatch):
    (tmp_path / FILE).write_text("workers = 3\nlateness_seconds = 5\nplanner = 'grid'\n")
    monkeypatch.setenv("PSTSTREAM_WORKERS", "4")
    monkeypatch.setenv("PSTSTREAM_LATENESS_SECONDS", "6")
    settings = load_settings(tmp_path, workers=5, planner=None)
    assert (settings.workers, settings.lateness_seconds, settings.planner) == (5, 6, "grid")


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("workers = 0", "workers", "less than 1"),
        ("workers = 10001", "workers", "more than"),
        ("workers = 1.5", "workers", "not a whole number"),
        ("workers = true", "workers", "not a whole number"),
        ("planner = 'best'", "planner", "unknown"),
        ("planner = 3", "planner", "not a text"),
        ("lateness_seconds = -1", "lateness_seconds", "less than 0"),
        ("lateness_seconds = 100000000000", "lateness_seconds", "more than 9,486,720,000"),
        ("retention_days = 1000000000000", "retention_days", "more than 109,800"),
        ("keep = 'objects=4'", "keep", "not TABLE=DAYSd"),
        ("keep = 'objects=0d'", "keep", "not TABLE=DAYSd"),
        ("keep = 'rejects=999999d'", "keep", "not TABLE=DAYSd"),  # before the year 1
        ("keep = 'batches=9d'", "keep", "not a table whose rows have an age"),
        ("keep = 'matches=9d, matches=9d'", "keep", "given twice"),
        ("keep = 'objects=9d'", "keep", "outlive"),
        ("keep = 'objects=9d,matches=10d'", "keep", "outlive"),
        ("keep = 'matches=2d'\nlateness_seconds = 200000", "keep", "less than lateness_seconds"),
        ("sigma = 1", "sigma", "not above 1"),
        ("sigma = inf", "sigma", "not below 1,000,000"),
        ("repartition_gain = 1.0", "repartition_gain", "not below 1"),
        ("repartition_gain = nan", "repartition_gain", "not a number"),
        ("watch_seconds = 0.01", "watch_seconds", "less than 0.05"),
        ("gate_volume_factor = 0.5", "gate_volume_factor", "neither 0 nor above 1"),
        ("timezone = 'Nowhere/At_all'", "timezone", "not a known zone"),
        ("cost_posting = 1e-9\ncost_match = 2e-6", "cost_match", "1000 times"),
        ("cost_posting = 1e-9\ncost_match_knn = 2e-6", "cost_match_knn", "1000 times"),
        ("cost_check = " + "9" * 400, "cost_check", "not a number"),
        ("workers = " + "9" * 5000, FILE, "not readable"),
        ("latenes = 1", "latenes", "unknown key"),
        ("workers = ", FILE, "not readable"),
        ("workers = " + "[" * 5000, FILE, "not readable"),
    ],
)
def test_a_bad_setting_names_its_key(tmp_path, text, name, reason):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SettingError, match=reason) as caught:
        load_settings(tmp_path)
    assert caught.value.name == name and caught.value.exit_code == 2


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


def test_values_have_the_types_that_planners_check() -> None:
    options = read_planner_options(" theta=64, delta=0.3,objective=sum,")
    assert options == {"theta": 64, "delta": 0.3, "objective": "sum"}
    assert [type(value) for value in options.values()] == [int, float, str]
    assert read_planner_options("") == {}


@pytest.mark.parametrize("text", ["delta", "delta=", "=3", "Delta=3", "delta=1,delta=2", "a b=3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="planner_options"):
        read_planner_options(text)
