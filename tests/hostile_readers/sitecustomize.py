"""Let each process of Python with this folder on its path die of input files by their names, as of a native reader.

abort.csv aborts, kill.csv is ended by the kernel, sleep.csv never ends, allocate.csv takes all memory, and fail.csv
raises an unexpected error. A file of requests or questions has such a name in a row, as in
{"dies": "kill.csv"}.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pststream.input import readers

BLOCK = 1 << 26


def _allocate() -> None:
    blocks = []
    while len(blocks) < 100:  # 6.7 GB: more than any limit of a test, and less than the machine has
        blocks.append(b"1" * BLOCK)
        time.sleep(0.02)


DEATHS = {
    "abort.csv": os.abort,
    "kill.csv": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "sleep.csv": lambda: time.sleep(1e6),
    "allocate.csv": _allocate,
    "lack.csv": lambda: bytearray(1 << 60),
    "fail.csv": lambda: {}["fail"],
}
_read_csv = readers._READERS["csv"]
_read_requests = readers.read_json_requests


def _die_or_read(path: str, *arguments: Any) -> Iterator[Any]:
    DEATHS.get(Path(path).name, lambda: None)()
    return _read_csv(path, *arguments)


def _die_or_read_requests(path: str, *arguments: Any) -> Iterator[Any]:
    content = Path(path).read_bytes()
    for line in content.splitlines() if b'"dies"' in content else ():
        DEATHS.get(json.loads(line).get("dies", ""), lambda: None)()
    return _read_requests(path, *arguments)


readers._READERS["csv"] = _die_or_read
readers.read_json_requests = _die_or_read_requests
