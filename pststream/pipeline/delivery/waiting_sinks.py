"""Name the sinks that `pststream deliver` has work for, from the ledger and the delivery positions alone."""

from pststream.settings import Settings
from pststream.state.deliveries import OK, read_progress
from pststream.state.home import Home
from pststream.tables.log_end import Ledger


def waiting_sinks(home: Home, settings: Settings) -> list[str]:
    """Return the names of the sinks that a finished batch waits for, or whose last delivery did not end well."""
    if not settings.sinks:
        return []
    ledger = Ledger(home)
    finished = ledger.next_batch_id - 1 - bool(ledger.unfinished_batch())
    waiting = []
    for sink in settings.sinks:
        progress = read_progress(home, sink.name)
        first = max(sink.from_batch, progress.batch_id + progress.complete)
        if first <= finished or progress.state != OK:
            waiting.append(sink.name)
    return waiting
