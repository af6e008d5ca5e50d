"""Define the trigger by which a deferred task waits for a driver on the cluster."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from pststream.airflow.runners.engine_choice import read_file
from pststream.base import names
from pststream.base.errors import PstError

LOOK_SECONDS = 300.0
"""Time after which the task looks whether the driver still runs."""

HOME_SECONDS = 60.0
"""Time after which a home that is not there is one that this process does not see; the first job makes the home."""

POLL_SECONDS = 2.0


class OutcomeTrigger(BaseTrigger):
    """Waits until the file of an outcome is in a home, at most LOOK_SECONDS, or HOME_SECONDS if the home is missing.

    Its event is whether the triggerer sees the home.
    """

    def __init__(self, home: str, name: str) -> None:
        super().__init__()
        self.home, self.name = home, name

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow stores."""
        return f"{__name__}.{type(self).__name__}", {"home": self.home, "name": self.name}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the event."""
        began = time.monotonic()
        while not (is_there := await asyncio.to_thread(has_file, self.home, self.name)):
            sees_home = await asyncio.to_thread(has_file, self.home, names.HOME_MARK)
            if time.monotonic() - began >= (LOOK_SECONDS if sees_home else HOME_SECONDS):
                break
            await asyncio.sleep(POLL_SECONDS)
        yield TriggerEvent(is_there or sees_home)


def has_file(home: str, name: str) -> bool:
    """Whether a home has a file that this process can read."""
    try:
        read_file(home, name)
    except (OSError, PstError):  # a missing file, or a store without keys here
        return False
    return True
