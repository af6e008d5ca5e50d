"""Measure the memory of the driver, its JVM and the Python workers: now, or the peak during a `with` block."""

import os
import threading
from pathlib import Path
from types import TracebackType

SECONDS = 0.2


class MemoryWatch:
    """Sample the memory of child processes every SECONDS; `peaks` has the greatest value of a process of each kind.

    jvm_peak_mb                   resident
    python_worker_peak_mb         resident without mapped files: the worker's own memory
    python_worker_mapped_peak_mb  with mapped files; these are page cache, shared by all workers and freed on demand

    `tree_peak_mb` is the greatest sum of the memory of all of them at one moment, and `own_peak_mb` the greatest memory
    of this process; both without mapped files.
    """

    def __init__(self) -> None:
        self.peaks = {"jvm_peak_mb": 0.0, "python_worker_peak_mb": 0.0, "python_worker_mapped_peak_mb": 0.0}
        self.tree_peak_mb = self.own_peak_mb = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(SECONDS):
            known = _processes()
            tree = [fields for pid, fields in known.items() if _descends(pid, os.getpid(), known)]
            for fields in tree:
                self._record(fields)
            total = sum(_mb(fields, "RssAnon") for fields in tree)
            self.tree_peak_mb = max(self.tree_peak_mb, round(total, 1))
            self.own_peak_mb = max(self.own_peak_mb, round(_mb(known[os.getpid()], "RssAnon"), 1))

    def _record(self, fields: dict[str, str]) -> None:
        if fields["Name"] == "java":
            self._raise("jvm_peak_mb", fields, "VmRSS")
        else:
            self._raise("python_worker_peak_mb", fields, "RssAnon")
            self._raise("python_worker_mapped_peak_mb", fields, "VmRSS")

    def _raise(self, name: str, fields: dict[str, str], field: str) -> None:
        self.peaks[name] = max(self.peaks[name], round(_mb(fields, field), 1))


def resident_mb() -> dict[str, float]:
    """Measure the private memory of this process, of the driver's JVM and of the Python workers together, in MB."""
    known = _processes()
    kinds = {"driver_mb": [known[os.getpid()]], "jvm_mb": [], "workers_mb": []}
    for pid, fields in known.items():
        if _descends(pid, os.getpid(), known):
            kinds["jvm_mb" if fields["Name"] == "java" else "workers_mb"].append(fields)
    return {kind: round(sum(_mb(fields, "RssAnon") for fields in of), 1) for kind, of in kinds.items()}


def _mb(fields: dict[str, str], field: str) -> float:
    return int(fields.get(field, "0 kB").split()[0]) / 1024


def _processes() -> dict[int, dict[str, str]]:
    processes = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                processes[int(entry)] = _status(int(entry))
            except OSError:  # it ended in the meantime
                continue
    return processes


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _descends(pid: int, ancestor: int, known: dict[int, dict[str, str]]) -> bool:
    while pid in known and pid != 1:
        pid = int(known[pid]["PPid"])
        if pid == ancestor:
            return True
    return False
