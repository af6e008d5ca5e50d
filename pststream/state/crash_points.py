"""Points at which the tests kill a process: a step must survive SIGKILL before and after each of them."""

import os
import signal


def crash_point(name: str) -> None:
    """Die here, uncleanly, if the environment variable PSTSTREAM_CRASH_AT says so."""
    if os.environ.get("PSTSTREAM_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
