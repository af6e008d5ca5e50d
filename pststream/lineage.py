"""Lineage: each batch and each ingest of the ledger told as a run of OpenLineage, where that is configured.

It is configured by OpenLineage's own variables. Without them nothing is loaded and nothing is told; with them, an event
that cannot be sent never stops the work, and none is tried again for a while, as each would hold it up anew.
"""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

START, COMPLETE, FAIL = "START", "COMPLETE", "FAIL"

SILENCE_SECONDS = 300.0

_failed_at: list[float] = []
"""When an event could last not be sent (time.monotonic), if ever."""


@contextmanager
def run(home: str, step: str, number: int, inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Tell that a step begins, and that it is done or has failed; what is put into the dictionary is told at its end.

    number   of the batch or ingest in the home's ledger: a try that died and the one that finishes it are one run
    inputs   what it reads: paths of tables and files, or addresses in a bucket; outputs: what it writes
    """
    figures: dict[str, Any] = {}
    if not configured():
        yield figures
        return
    run = (home, step, number, inputs, outputs)
    _tell(START, *run, {})
    try:
        yield figures
    except BaseException:
        _tell(FAIL, *run, {})
        raise
    _tell(COMPLETE, *run, figures)


def configured() -> bool:
    """Whether the environment says where events go."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() in ("1", "t", "true"):
        return False
    wanted = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
    return any(
        value and (name in wanted or name.startswith("OPENLINEAGE__TRANSPORT")) for name, value in os.environ.items()
    )


def _tell(state: str, *told: Any) -> None:
    if _failed_at and time.monotonic() - _failed_at[-1] < SILENCE_SECONDS:
        return
    try:
        from pststream import lineage_events

        lineage_events.send(state, *told)
    except Exception as error:
        _failed_at[:] = [time.monotonic()]
        logging.getLogger(__name__).warning(
            "no lineage of %s %s: %s: %s", told[1], told[2], type(error).__name__, error
        )
