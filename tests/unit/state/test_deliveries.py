"""Places of sinks are noted by several threads while their files are joined: no row is lost, nobody fails."""

import threading
from collections.abc import Callable

from pststream.base import names
from pststream.state import ledger_tables
from pststream.state.deliveries import Counts, SinkProgress, read_progress, save_progress
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table


def test_notes_and_joins_at_the_same_time(hand_home: Home) -> None:
    for number in range(8):
        save_progress(hand_home, "first", SinkProgress(number, 0, True), Counts(1))
    errors: list[BaseException] = []

    def started(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def note(sink: str) -> None:
        for number in range(8):
            save_progress(hand_home, sink, SinkProgress(number, 0, True), Counts(1))

    def join() -> None:
        for _ in range(4):
            ledger_tables.compact(hand_home, names.DELIVERIES)

    threads = [started(lambda sink=sink: note(sink)) for sink in "abc"]  # type: ignore[misc]
    threads += [started(join) for _ in range(3)]
    for thread in threads:
        thread.join()
    assert errors == []
    assert read_table(hand_home.table(names.DELIVERIES)).num_rows == 32
    assert {read_progress(hand_home, sink).batch_id for sink in ("first", "a", "b", "c")} == {7}


def test_a_sink_that_was_told_nothing_for_long_is_found(hand_home: Home) -> None:
    assert read_progress(hand_home, "late") == SinkProgress()
    for position in (2, 1):
        save_progress(hand_home, "late", SinkProgress(3, position, False), Counts(1))
    for batch in (2, 5_000, 100_000):
        save_progress(hand_home, "quick", SinkProgress(batch, 0, True), Counts(1))
    assert read_progress(hand_home, "late") == SinkProgress(3, 2, False)
    assert read_progress(hand_home, "quick") == SinkProgress(100_000, 0, True)
    assert read_progress(hand_home, "unheard of") == SinkProgress()
