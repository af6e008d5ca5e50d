"""Settings: where they come from, and what is refused."""

import pytest

from pststream.errors import SettingError
from pststream.settings import FILE, Settings, default_file, load_settings


def test_the_new_file_is_the_defaults(tmp_path):
    (tmp_path / FILE).write_text(default_file())
    assert load_settings(tmp_path) == Settings()


def test_argument_over_environment_over_file(tmp_path, monkeypatch):
    (tmp_path / FILE).write_text("workers = 3\nlateness_seconds = 5\nplanner = 'grid'\n")
    monkeypatch.setenv("PSTSTREAM_WORKERS", "4")
    monkeypatch.setenv("PSTSTREAM_LATENESS_SECONDS", "6")
    found = load_settings(tmp_path, workers=5, planner=None)
    assert (found.workers, found.lateness_seconds, found.planner) == (5, 6, "grid")


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("workers = 0", "workers", "less than 1"),
        ("workers = 10001", "workers", "more than"),
        ("workers = 1.5", "workers", "not a whole number"),
        ("workers = true", "workers", "not a whole number"),
        ("planner = 'best'", "planner", "unknown"),
        ("planner = 3", "planner", "not a text"),
        ("lateness_seconds = -1", "lateness_seconds", "out of range"),
        ("lateness_seconds = 100000000000", "lateness_seconds", "out of range"),
        ("retention_days = 1000000000000", "retention_days", "300 years"),
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
