"""Run a shuffle whose sent rows differ in each try; print the received parts: `python -m tests.lost_rows FOLDER`.

Once the first part is received, FOLDER has a file `ended`; the others wait until it has a file `lost`.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.settings import load_settings

PARTS = 4


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


def send(folder: Path, task: int) -> Iterator[SentRows]:
    """Send a row to each part, once both tasks run: each on an executor of its own."""
    (folder / f"sent-{task}").touch()
    wait_for(folder / f"sent-{1 - task}")
    for part in range(PARTS):
        yield part, task, pa.record_batch({"task": [task], "measured": [os.urandom(8)]})


def receive(folder: Path, part: int, received: Iterable[ReceivedRows]) -> tuple[int, list[int]]:
    """Return the part and the tasks of its rows."""
    tasks = sorted(task for _, rows in received for task in rows["task"].to_pylist())
    try:
        (folder / "received").touch(exist_ok=False)
    except FileExistsError:
        wait_for(folder / "lost")
    return part, tasks


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    engine = get_engine(load_settings(None, engine="spark"))

    def ended(stage: int, share: float) -> None:
        if stage and share:
            (folder / "ended").touch()

    parts = engine.run_shuffled([0, 1], partial(send, folder), [Stage(PARTS, partial(receive, folder))], ended)
    print(json.dumps(sorted(parts)))
