"""Describe the process that holds a lock, and say whether it has ended."""

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pststream.base.utc_times import iso, utc_now


class LockTaken(Exception):
    """Another process holds the lock; `holder` describes it."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def describe_process() -> dict[str, object]:
    """Return what a lock says of this process. The command comes without arguments, which may be confidential."""
    words = [Path(sys.argv[0]).name, *[word for word in sys.argv[1:2] if not word.startswith("-")]]
    since = iso(utc_now(), "seconds")
    described = {"process": os.getpid(), "host": platform.node(), "command": " ".join(words), "since": since}
    return described | {"place": process_namespace(), "began": _start_time(os.getpid())}


def describe_holder(content: Any) -> str:
    """Return the content of a lock as a part of a sentence; its holder may not have written it yet."""
    try:
        return f"{content['command']} (process {content['process']}, since {content['since']}, on {content['host']})"
    except (KeyError, TypeError):
        return "another command"


def has_ended(content: Mapping[str, Any]) -> bool:
    """Whether the holder was a process of this machine that has ended."""
    return content.get("place") == process_namespace() and content.get("began") != _start_time(content.get("process"))


def process_namespace() -> str:
    """Return what makes process ids unique: the boot of this machine, and the namespace of process ids."""
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text('ascii').strip()} {os.readlink('/proc/self/ns/pid')}"


def _start_time(process: Any) -> str | None:
    """Return when a process started, which no other process with its id shares; None if there is none."""
    try:
        return Path(f"/proc/{int(process)}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except (OSError, ValueError, TypeError, IndexError):
        return None
