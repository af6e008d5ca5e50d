"""Send OpenLineage events when a batch or an ingest starts, completes or fails, if OpenLineage is configured.

OpenLineage's own environment variables configure it. Without them nothing is imported and nothing is sent. With them,
an event that cannot be sent never stops the work, and no event is sent for a while afterwards, as each further attempt
would delay the work.
"""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pststream.base.texts import mask_urls

START, COMPLETE, FAIL = "START", "COMPLETE", "FAIL"

SILENCE_SECONDS = 300.0
"""Pause in which no event is sent, after an event could not be sent."""

_failed_at: list[float] = []
"""Time (of `time.monotonic`) of the last event that could not be sent; empty if there was none."""


class LineageDataset(NamedTuple):
    """A table or a file that a step reads or writes.

    address  absolute path, or address in a bucket
    columns  name, SQL type and meaning of each column of a table
    rows     name of the figure of the run that counts the rows written; None if none does
    """

    address: str
    columns: tuple[tuple[str, str, str], ...] = ()
    rows: str | None = None


@contextmanager
def record_run(
    home: str, step: str, number: int, inputs: Sequence[LineageDataset], outputs: Sequence[LineageDataset]
) -> Iterator[dict[str, Any]]:
    """Send that a step starts, and that it completes or fails; the dictionary's entries are sent when it completes.

    number   of the batch or ingest in the home's ledger: an interrupted try and the try that finishes it are one run
    inputs   the tables and files that the step reads; outputs: those that it writes
    """
    figures: dict[str, Any] = {}
    if not is_configured():
        yield figures
        return
    run = (home, step, number, inputs, outputs)
    _send(START, *run, {})
    try:
        yield figures
    except BaseException:
        _send(FAIL, *run, {})
        raise
    _send(COMPLETE, *run, figures)


def is_configured() -> bool:
    """Whether the environment says where events go."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() in ("1", "t", "true"):
        return False
    variables = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
    return any(
        value and (name in variables or name.startswith("OPENLINEAGE__TRANSPORT")) for name, value in os.environ.items()
    )


def _send(state: str, *run: Any) -> None:
    if _failed_at and time.monotonic() - _failed_at[-1] < SILENCE_SECONDS:
        return
    try:
        from pststream.base import lineage_events

        lineage_events.send_event(state, *run)
    except Exception as error:
        _failed_at[:] = [time.monotonic()]
        logging.getLogger(__name__).warning(
            "no lineage of %s %s: %s: %s", run[1], run[2], type(error).__name__, mask_urls(str(error))
        )
