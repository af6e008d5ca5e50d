"""Ends a job when the process that submitted it is gone, so that a retry never finds its predecessor still writing.

If Airflow's task is killed outright, nobody tells spark-submit: the JVM and the Python under it would run on while the
scheduler starts the next try. `SparkJob` names its process ids in the environment; without them nothing is watched.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

SUBMITTERS = "PSTSTREAM_SUBMITTERS"
SECONDS = 1.0
EXIT_CODE = 1


def end_with_submitter() -> None:
    """Watch, in the background, the processes that the environment names, and the JVM if spark-submit started us."""
    submitters = [int(word) for word in os.environ.get(SUBMITTERS, "").split(",") if word.isdigit()]
    if submitters:
        threading.Thread(target=_watch, args=(submitters, _jvm()), daemon=True, name="lifeline").start()


def alive(process: int) -> bool:
    """Does a process with this id run? One that ended and was not yet collected does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return sys.platform != "linux"
    return state not in "ZX"


def _jvm() -> int | None:
    """The JVM of spark-submit, which is our parent when it started us."""
    return os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else None


def _watch(submitters: list[int], jvm: int | None) -> None:
    while all(map(alive, submitters)) and (jvm is None or os.getppid() == jvm):
        time.sleep(SECONDS)
    sys.stderr.write("the process that submitted this job is gone; the job ends\n")
    if jvm is not None and os.getppid() == jvm:
        os.kill(jvm, signal.SIGKILL)
    os._exit(EXIT_CODE)
