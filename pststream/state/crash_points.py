"""Kill the process at a named point of a step, for tests: each step must survive SIGKILL there."""

import os
import signal


def crash_point(name: str) -> None:
    """Kill this process with SIGKILL if the environment variable PSTSTREAM_CRASH_AT has this name."""
    if os.environ.get("PSTSTREAM_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
