"""`airflow standalone`, with two differences: nothing listens beyond loopback, and it ends with the process above it.

The scheduler and the triggerer would serve their log files on every address of the machine, and no setting changes
that. On one machine the API server reads the files itself, so they are told not to.
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
    """Interrupt ourselves when the process that started us is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)


def interrupt(*_: Any) -> None:
    """What Airflow's own loop takes as the word to end its components."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    # Python leaves SIGINT alone where a shell started it in the background.
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=end_with_parent, daemon=True).start()
    standalone_command.SubCommand = LoopbackCommand
    standalone_command.StandaloneCommand().run()
