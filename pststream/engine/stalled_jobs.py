"""Cancel a job of Spark of which no task has ended for a given time."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pststream.engine.contract import TaskEnded, TasksStalled


@contextmanager
def cancelled_if_stalled(
    cancel: Callable[[], None], ended: TaskEnded | None, seconds: float | None
) -> Iterator[TaskEnded | None]:
    """Call `cancel` if no task ends for `seconds` in the block, and raise TasksStalled for the error that follows.

    Yields the function that must receive each task that has ended; it passes them on to `ended`.
    """
    if seconds is None:
        yield ended
        return
    ends = deque([time.monotonic()], maxlen=1)
    done, stalled = Event(), Event()

    def count(stage: int, number: int) -> None:
        ends.append(time.monotonic())
        if ended is not None:
            ended(stage, number)

    def wait() -> None:
        while (left := ends[-1] + seconds - time.monotonic()) > 0:
            if done.wait(left):
                return
        stalled.set()
        cancel()

    thread = Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield count
    except Exception:
        if stalled.is_set():
            raise TasksStalled from None
        raise
    finally:
        done.set()
        thread.join()
