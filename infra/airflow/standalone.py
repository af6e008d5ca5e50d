"""Run `airflow standalone` on loopback only, and end it with its parent process.

The scheduler and the triggerer would serve their log files on every address of the machine, and no setting changes
that. On one machine the API server reads the files itself, so an option switches these servers off.
"""

import os
import signal
import threading
import time
from typing import Any

from airflow.cli.commands import standalone_command

SERVES_LOGS = ("scheduler", "triggerer")


class LoopbackCommand(standalone_command.SubCommand):
    """A component that serves no log files."""

    def __init__(self, parent: Any, name: str, command: list[str], env: dict[str, str]) -> None:
        if name in SERVES_LOGS:
            command = [*command, "--skip-serve-logs"]
        super().__init__(parent, name, command, env)


def end_with_parent() -> None:
    """Interrupt this process when its parent has ended."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)


def interrupt(*_: Any) -> None:
    """Raise KeyboardInterrupt, on which Airflow's own loop ends its components."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    # A shell starts background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=end_with_parent, daemon=True).start()
    standalone_command.SubCommand = LoopbackCommand
    standalone_command.StandaloneCommand().run()
