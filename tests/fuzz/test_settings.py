"""Settings, sink settings and manifests of random content are read, or refused with an error that names the key."""

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pytest

from pststream.base.errors import SettingError
from pststream.delivery.sinks.read_settings import sink_keys
from pststream.input.manifests import choose_ready, parse_manifest
from pststream.settings import FILE, Settings, default_file, load_settings, setting_keys
from pststream.storage.contract import StoredObject
from tests.fuzz.cases import cases, trying
from tests.fuzz.mutations import mutated
from tests.fuzz.values import TEXTS, any_value

SINKS = """
[sinks.alerts]
kind = "webhook"
target = "https://example.org:8443/hook"
networks = "10.1.0.0/16 fd00::/8"
timeout_seconds = 2.5
lanes = 4
[sinks.files]
kind = "file"
target = "delivered"
"""
VALUES = (
    *("0", "-1", "1.5", "nan", "inf", "1e400", "true", '""', '"x"', "[]", "{}", "1979-05-27", "9" * 30),
    *("5",) * 9,
)


def test_settings_files(tmp_path: Path) -> None:
    text = default_file() + SINKS
    loaded = 0
    for number, rnd in cases("settings", 400):
        content = mutated(rnd, text.encode()) if rnd.randrange(2) else _other_values(rnd, text).encode()
        (tmp_path / FILE).write_bytes(content)
        with trying(("settings", number)):
            loaded += _loads(tmp_path)
    assert loaded


def _other_values(rnd: random.Random, text: str) -> str:
    """Change some values; repeat a key, add an unknown one, or move one to another table."""
    lines = text.splitlines()
    for _ in range(rnd.randrange(1, 4)):
        at = rnd.choice([n for n, line in enumerate(lines) if " = " in line and not line.startswith("#")])
        key = lines[at].split(" = ")[0]
        lines[at] = f"{rnd.choice((key, key, key, key, 'x', 'target', 'limit'))} = {rnd.choice(VALUES)}"
    return "\n".join(lines)


def _loads(home: Path) -> bool:
    """Whether settings can be loaded; assert that an error names the refused key."""
    try:
        settings = load_settings(home)
    except SettingError as error:
        assert error.name and error.reason
        return False
    assert isinstance(settings, Settings)
    for key in setting_keys():
        assert type(getattr(settings, key.name)) is type(key.default), key.name
    assert settings.sigma > 1 and 1 <= settings.workers <= 10_000 and settings.lateness_seconds >= 0
    assert "example.org" not in repr(settings), "a target may hold a token"
    return True


def test_settings_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text(SINKS)
    names = [f"PSTSTREAM_{key.name.upper()}" for key in setting_keys()]
    names += [f"PSTSTREAM_SINK_ALERTS_{key.name.upper()}" for key in sink_keys()]
    for number, rnd in cases("environment", 600):
        with monkeypatch.context() as patch:
            for name in rnd.sample(names, rnd.randrange(1, 4)):
                value = rnd.choice((*VALUES, *TEXTS, "http://[::1", "https://user:pass@host/", "http://h:99999/"))
                patch.setenv(name, value.replace("\x00", ""))
            with trying(("environment", number)):
                _loads(tmp_path)


def test_manifests() -> None:
    entries = [{"key": f"part-{n}.csv", "etag": f'"{n}"', "size": n} for n in range(3)]
    there = [_stored(f"in/_batch/part-{n}.csv", str(n), n) for n in range(3)] + [_stored("in/a.csv", "a", 1)]
    for number, rnd in cases("manifests", 1500):
        document: Any = {"files": [entry | _changes(rnd) for entry in entries]} if rnd.randrange(4) else any_value(rnd)
        content = json.dumps(document).encode("utf-8", "surrogatepass")
        content = mutated(rnd, content) if rnd.randrange(2) else content
        with trying(("manifest", number)):
            manifest = parse_manifest(_stored("in/_manifests/m.json", "m", len(content)), "in/", content)
            assert bool(manifest.files) <= (not manifest.fault)
            assert all(isinstance(key, str) and key.startswith("in/") for key in manifest.files)
            ready, waiting = choose_ready("in/", there, [manifest], ())
            assert [one.key for one in ready if "/_" not in one.key] == ["in/a.csv"]
            assert len({one.key for one in ready} | {one.key for one in waiting}) >= len(there)


def _changes(rnd: random.Random) -> dict[str, Any]:
    return {rnd.choice(("key", "etag", "size", "x")): any_value(rnd)} if rnd.randrange(3) == 0 else {}


def _stored(key: str, etag: str, size: int) -> StoredObject:
    return StoredObject(key, etag, size, dt.datetime(2026, 3, 1, tzinfo=dt.UTC))
