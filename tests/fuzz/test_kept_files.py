"""Expressions, settings and files beside the tables, of random content, are read, refused or ignored."""

import datetime as dt
import json
import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pststream.base.errors import SettingError, UsageError
from pststream.delivery.sinks.registry import sink_keys
from pststream.input.manifests import choose_ready, parse_manifest
from pststream.pipeline.replan.proposal_file import Decision, Proposal, read_proposal, write_proposal
from pststream.planning.balancing.contract import Adjustment
from pststream.planning.load_model import WorkerLoads
from pststream.plans.plan import DispatchGrid, space_plan
from pststream.plans.plan_moves import Move
from pststream.queries.kinds.keywords import explain_missing_words
from pststream.queries.text.expression import ExpressionError, parse_keywords
from pststream.reports.reading.home_figures import read_watcher, render_watcher
from pststream.settings import FILE, Settings, default_file, load_settings, setting_keys
from pststream.state import fetched_files
from pststream.state.home import Home
from pststream.storage.array_cache import TornFileError, map_arrays, write_arrays
from pststream.storage.contract import StoredObject
from tests.fuzz.cases import cases, trying
from tests.fuzz.mutations import TOKENS, mutated
from tests.fuzz.values import TEXTS, any_value
from tests.oracles import twin_expressions, twin_rows
from tests.worlds import WORDS, some_expression

PARTS = ("(", ")", " AND ", " OR ", " ", '"', '""', "and", "Or", "NOT", "-", "*", "\n", "\u2028", "(" * 200, ")" * 200)
SHORT = 400
"""Length limit for the slow twin, which is recursive."""


def test_expressions() -> None:
    read = refused = 0
    for number, rnd in cases("expressions", 2500):
        expression = _expression(rnd)
        with trying(("expression", number, expression[:200])):
            clauses = _clauses(expression)
            read, refused = read + bool(clauses), refused + (not clauses)
            if len(expression) < SHORT and expression.count("(") < 50:
                _same_as_the_tree(rnd, expression, clauses)
    assert read and refused


def _expression(rnd: random.Random) -> str:
    """Make an expression of a world with parts inserted, removed or repeated."""
    text = some_expression(rnd, rnd.choice((1, 2, 3)))
    for _ in range(rnd.choice((0, 1, 1, 2, 4))):
        low = rnd.randint(0, len(text))
        high = rnd.randint(low, len(text))
        foreign = rnd.choice(TOKENS).decode("utf-8", "surrogateescape")
        part = rnd.choice((rnd.choice(PARTS), rnd.choice(WORDS), rnd.choice(TEXTS), foreign, text[low:high] * 9))
        text = text[:low] + part + text[rnd.choice((low, low, high)) :]
    return text


def _clauses(expression: str) -> list[list[str]]:
    """Parse the clauses; return none if the expression is refused with a position."""
    try:
        clauses = parse_keywords(expression).required
    except ExpressionError as error:
        assert isinstance(error, UsageError) and error.reason
        assert 1 <= error.position <= len(expression) + 1
        return []
    assert clauses and all(clauses) and len(clauses) <= 64
    assert clauses == sorted((sorted(set(clause)) for clause in clauses), key=lambda clause: (len(clause), clause))
    return clauses


def _same_as_the_tree(rnd: random.Random, expression: str, clauses: list[list[str]]) -> None:
    """Assert that accepted expressions mean the same to the slow twin; it cannot read refused ones."""
    try:
        tree = twin_expressions.parse(expression)
    except twin_rows.BadRow:
        assert not clauses
        return
    known = sorted({word for part in expression.split() for word in twin_expressions.words_of(part)})
    for _ in range(4 if clauses else 0):
        text = " ".join(word for word in known if rnd.randrange(4))
        is_missing = explain_missing_words(expression, [text])
        assert (is_missing is None) == twin_expressions.holds(tree, twin_expressions.parts_of(text))


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


def test_proposals(tmp_path: Path) -> None:
    whole, changed = tmp_path / "whole.npz", tmp_path / "changed.npz"
    plan = space_plan("grid", DispatchGrid(0, 0, 9, 9, 3, 3), np.arange(9), np.arange(9) % 2, 2)
    loads = WorkerLoads(*(np.arange(9.0 if "unit" in field.name else 2.0) for field in fields(WorkerLoads)))
    moves = [Move(0, 1, np.array([2, 4])), Move(1, 0, np.array([3]), np.array([7, 8]))]
    adjustment = Adjustment(plan, moves, ["gr", "split"], loads, loads)
    write_proposal(whole, Proposal("local", 3, "digest", Decision("why", 1.5, adjustment)))
    read = 0
    for number, rnd in cases("proposals", 400):
        changed.write_bytes(mutated(rnd, whole.read_bytes()))
        with trying(("proposals", number)):
            try:
                read += read_proposal(changed).plan_version == 3
            except UsageError as error:
                assert str(changed) in str(error)
    assert read


def test_fetched_file_hashes(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    fetched_files.write_hash_cache(home, {"s3://bucket/a": ("etag", 3, "hash"), "/in/b": ("1-2-3", 4, "hash")})
    path = home.work_folder / "spool" / "learnt.json"
    whole = path.read_bytes()
    for number, rnd in cases("learnt", 400):
        path.write_bytes(changed_json(rnd, whole))
        with trying(("learnt", number)):
            for address, (tag, size, what) in fetched_files.read_hash_cache(home).items():
                assert isinstance(address + tag + what, str) and isinstance(size, int)


def test_heartbeats(tmp_path: Path) -> None:
    home = Home(tmp_path)
    heartbeat: dict[str, object] = {
        "process": 1,
        "state": "idle",
        "at": "2026-01-01T00:00:00.000Z",
        "since": "2026-01-01T00:00:00.000Z",
    }
    heartbeat |= {"lag_seconds": 0.5, "waiting_files": 0, "batches": 3, "failures": 0, "error": None}
    whole, now, readable = json.dumps(heartbeat).encode(), dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC), 0
    for number, rnd in cases("heartbeats", 400):
        (tmp_path / "watch.json").write_bytes(changed_json(rnd, whole))
        with trying(("heartbeats", number)):
            result = read_watcher(home, now)
            assert render_watcher(result) or result is None
            readable += result is not None
    assert readable


def changed_json(rnd: random.Random, content: bytes) -> bytes:
    """Mutate the bytes, or replace the values of known keys."""
    if rnd.randrange(2):
        return mutated(rnd, content)
    document = json.loads(content)
    document[rnd.choice(list(document))] = any_value(rnd)
    return json.dumps(document, default=str).encode()


def test_arrays(tmp_path: Path) -> None:
    """A file that was cut, or has another length or header, is torn; other array contents are not checked."""
    whole, changed = tmp_path / "whole", tmp_path / "changed"
    write_arrays(whole, {"a": np.arange(50), "b": np.ones((3, 4), np.float32)})
    for number, rnd in cases("arrays", 400):
        content = whole.read_bytes()
        changed.write_bytes(content[: rnd.randrange(len(content))] + b"x" * (rnd.randrange(3) * 8))
        with trying(("arrays", number)):
            try:
                map_arrays(changed)
            except TornFileError:
                continue
            assert changed.stat().st_size == len(content)
