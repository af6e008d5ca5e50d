"""Peak memory of this process's children: the driver's JVM and the Python workers."""

import os
from pathlib import Path


def peaks() -> dict[str, float]:
    """Greatest resident megabytes so far of the JVM and of any one Python worker below this process (maps included)."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = _status(int(entry))
            except OSError:
                continue
            parents[int(entry)] = fields
    children = {pid for pid in parents if _descends(pid, os.getpid(), parents)}
    found = {"jvm_peak_mb": 0.0, "python_worker_peak_mb": 0.0}
    for pid in children:
        name = "jvm_peak_mb" if parents[pid]["Name"] == "java" else "python_worker_peak_mb"
        found[name] = max(found[name], round(int(parents[pid].get("VmHWM", "0 kB").split()[0]) / 1024, 1))
    return found


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _descends(pid: int, ancestor: int, known: dict[int, dict[str, str]]) -> bool:
    while pid in known and pid != 1:
        pid = int(known[pid]["PPid"])
        if pid == ancestor:
            return True
    return False
