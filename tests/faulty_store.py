"""Run a proxy with random faults as a separate process, which answers also while its caller is busy.

    python -m tests.faulty_store SERVER SEED SHARE

The process prints its address, and a letter for each fault. The share of all requests is answered with 503 or 500, or
with a truncated response.
"""

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bad_store import bad_store

ROOT = Path(__file__).parents[1]


@dataclass
class Faulty:
    """Address of the proxy, and the number of faults once it has ended."""

    url: str
    faults: int = 0


@contextmanager
def faulty_store(server: str, seed: int, share: float) -> Iterator[Faulty]:
    """Run such a proxy until the block ends."""
    command = [sys.executable, "-m", "tests.faulty_store", server, str(seed), str(share)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    store = Faulty(process.stdout.readline().strip())
    try:
        yield store
    finally:
        process.kill()
        process.wait()
        store.faults = len(process.stdout.read())
        process.stdout.close()


def main(server: str, seed: str, share: str) -> None:
    """Serve until killed."""
    draw = random.Random(int(seed))

    def fault(method: str, target: str) -> int | str | None:
        if draw.random() >= float(share):
            return None
        print("x", end="", flush=True)
        return 503 if method == "HEAD" else draw.choice([503, 500, "cut"])

    with bad_store(server) as store:
        store.fault = fault
        print(store.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
