"""Landed files are cut into groups by the time that they take, which a clock of the test says."""

import json
from pathlib import Path

import pytest

from pststream.base import names
from pststream.pipeline.ingest import fetch_objects, ingest_transaction
from pststream.pipeline.ingest.deduplicate import KEY_OF
from pststream.pipeline.ingest.fetch_objects import FIRST_BYTES, FIRST_FILES, GROUP_SECONDS, parts_in_time
from pststream.pipeline.ingest.ingest import ingest
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table

SETTINGS = Settings(engine="local")


class Clock:
    """A clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(fetch_objects, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def parts(clock: Clock, sizes: list[int], seconds: float) -> list[int]:
    """Return the number of files of each part, if each file takes so many seconds."""
    counts = []
    for part in parts_in_time(sizes):
        counts.append(len(sizes[part]))
        clock.now += seconds * counts[-1]
    return counts


def test_parts_double_until_the_time_is_over(clock: Clock) -> None:
    assert parts(clock, [1] * 1000, 0) == [32, 32, 64, 128, 256, 488]
    assert parts(clock, [1] * 1000, GROUP_SECONDS / 40) == [32, 32]
    assert parts(clock, [1] * 1000, GROUP_SECONDS * 40) == [32]
    assert parts(clock, [1] * FIRST_FILES, GROUP_SECONDS) == [32]
    assert parts(clock, [FIRST_BYTES * 100, 1, 1], 0) == [1, 2]
    assert parts(clock, [FIRST_BYTES * 100] * 3, GROUP_SECONDS) == [1]
    assert parts(clock, [FIRST_BYTES * 7] * 20, 0) == [4, 4, 8, 4]
    assert parts(clock, [], 0) == []


@pytest.mark.promise
@pytest.mark.parametrize("kind", [names.OBJECTS, names.REQUESTS])
def test_files_that_take_long_are_committed_before_more_are_opened(
    hand_home: Home, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Objects of later groups are judged by the watermark before the first one, as if all were one group."""
    folder, count = tmp_path / "landing" / kind, 7
    folder.mkdir(parents=True)
    for n in range(count):
        thing = {"object_id": f"o{n}", "ts": f"2026-03-{28 - 3 * n:02}T00:00:00Z", "lon": 1, "lat": 2, "text": "tea"}
        asked = {"op": "insert", "subscription_id": f"s{n}", "keywords": "tea", "bbox": [0, 0, 9, 9]}
        (folder / f"{n}.jsonl").write_text(json.dumps(thing if kind == names.OBJECTS else asked) + "\n")
    monkeypatch.setattr(fetch_objects, "FIRST_FILES", 2)
    stage, opened = ingest_transaction._stage_suspects_apart, []

    def slow(home: Home, settings: Settings, files: list[dict[str, object]], *others: object) -> object:
        opened.append((len(files), len(read_table(home.table(kind), [KEY_OF[kind]], None))))
        clock.now += 31 * len(files)
        return stage(home, settings, files, *others)

    monkeypatch.setattr(ingest_transaction, "_stage_suspects_apart", slow)
    done = ingest(hand_home, SETTINGS, kind, [str(folder)], quarantine_unreadable=True, folder=str(folder))
    assert (done["files"], done["accepted"], done["rejected"]) == (count, count, 0)
    assert opened == [(2, 0), (2, 2), (2, 4), (1, 6)], "files opened at once, and rows in the log by then"
    assert not hand_home.files.exists("open_round")
