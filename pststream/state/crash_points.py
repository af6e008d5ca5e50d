"""Kill the process with SIGKILL at a named point of a step, if a test asks for it through PSTSTREAM_CRASH_AT.

Every step must survive a kill at each of its crash points.
"""

import os
import signal


def crash_point(name: str) -> None:
    """Kill this process with SIGKILL if the environment variable PSTSTREAM_CRASH_AT has this name."""
    if os.environ.get("PSTSTREAM_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
