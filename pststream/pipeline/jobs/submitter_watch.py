"""End a job when the process that submitted it is gone, so that no job of an earlier try still writes during a retry.

If Airflow's task is killed with SIGKILL, spark-submit does not notice: the JVM and its Python process would continue
while the scheduler starts the next try. `SparkJob` puts the ids of its process and of the parent process into an
environment variable; without the variable nothing is watched.
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
    """Watch the processes in the environment variable in a thread, and the JVM if spark-submit started this process."""
    submitters = [int(word) for word in os.environ.get(SUBMITTERS, "").split(",") if word.isdigit()]
    if submitters:
        jvm = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else None  # spark-submit's JVM started this process
        threading.Thread(target=_watch, args=(submitters, jvm), daemon=True, name="submitter-watch").start()


def is_alive(process: int) -> bool:
    """Whether a process with this id runs; a zombie does not."""
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


def _watch(submitters: list[int], jvm: int | None) -> None:
    while all(map(is_alive, submitters)) and (jvm is None or os.getppid() == jvm):
        time.sleep(SECONDS)
    sys.stderr.write("the process that submitted this job is gone; the job ends\n")
    if jvm is not None and os.getppid() == jvm:
        os.kill(jvm, signal.SIGKILL)
    os._exit(EXIT_CODE)
