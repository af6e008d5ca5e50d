"""Counts of steps: the rate and the time left by a clock, stages of tasks, fields of messages."""

import pytest

from pststream.base.progress import Counted, CountMessage, LogMessage, StepCounter, TaskCounter, with_fields


class Log:
    """Collects messages under a clock that stands still until it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.messages = 0.0, list[str]()
        monkeypatch.setattr("pststream.base.progress.time.monotonic", lambda: self.now)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_a_count_has_a_rate_and_the_time_left(log: Log) -> None:
    counter = StepCounter(log.messages.append, "matching", "object", 5_000_000, step="match")
    for log.now, number in ((2.0, 1_000_000), (4.0, 1_500_000), (5.0, 2_500_000)):
        counter.add(number)
    assert log.messages == [
        "matching: 0 of 5,000,000 objects",
        "matching: 1,000,000 of 5,000,000 objects, 500,000/s, 8.0 s left",
        "matching: 2,500,000 of 5,000,000 objects, 625,000/s, 4.0 s left",
    ]
    assert [message.fields for message in log.messages if isinstance(message, CountMessage)] == [
        {"step": "match", "seconds": seconds} for seconds in (0.0, 2.0, 4.0)
    ]


def test_bytes_are_counted_in_units_with_a_note(log: Log) -> None:
    counter = StepCounter(log.messages.append, "reading objects", "byte", 128_000_000)
    log.now = 2.0
    counter.add(32_000_000, "1 of 3 files")
    assert log.messages[1:] == ["reading objects: 32 MB of 128 MB, 16 MB/s, 6.0 s left (1 of 3 files)"]


def test_without_a_total_there_is_a_rate_only(log: Log) -> None:
    counter = StepCounter(log.messages.append, "exporting", "match", None)
    for log.now in (1.0, 300.0):
        counter.add(6)
    assert log.messages == ["exporting: 0 matches", "exporting: 6 matches, 6/s", "exporting: 12 matches, 0.04/s"]


def test_a_step_of_nothing_logs_nothing(log: Log) -> None:
    StepCounter(log.messages.append, "matching", "object", 0).add(0)
    TaskCounter(log.messages.append, Counted("sampling", "object", []))
    assert log.messages == []


def test_tasks_are_counted_by_stage_each_once(log: Log) -> None:
    """The clock of a stage begins when the stage before has ended; a task that ran again counts once."""
    counter = TaskCounter(log.messages.append, Counted("reading", "row", [10, 30]), Counted("writing", "part", [1] * 4))
    for log.now, end in ((1.0, (0, 1)), (2.0, (0, 1)), (4.0, (0, 0)), (6.0, (1, 3)), (7.0, (2, 0)), (8.0, (1, 0))):
        counter(*end)
    assert log.messages == [
        "reading: 0 of 40 rows",
        "reading: 30 of 40 rows, 30/s, 0.33 s left",
        "writing: 0 of 4 parts",
        "writing: 1 of 4 parts, 0.5/s, 6.0 s left",
        "writing: 2 of 4 parts, 0.5/s, 4.0 s left",
    ]


def test_a_stage_begins_though_parts_of_the_stage_before_had_no_rows(log: Log) -> None:
    counter = TaskCounter(log.messages.append, *(Counted(step, "part", [1, 1]) for step in ("a", "b")))
    counter(0, 1)
    counter(1, 0)
    assert log.messages == ["a: 0 of 2 parts", "a: 1 of 2 parts", "b: 0 of 2 parts", "b: 1 of 2 parts"]


def test_fields_are_added_to_messages_of_every_kind() -> None:
    messages: list[str] = []
    log = with_fields(messages.append, step="ingest")
    for text in ("a", LogMessage("b", level="warning"), CountMessage("c", seconds=1.0)):
        log(text)
    assert [(str(one), type(one), one.fields) for one in messages if isinstance(one, LogMessage)] == [
        ("a", LogMessage, {"step": "ingest"}),
        ("b", LogMessage, {"level": "warning", "step": "ingest"}),
        ("c", CountMessage, {"seconds": 1.0, "step": "ingest"}),
    ]
