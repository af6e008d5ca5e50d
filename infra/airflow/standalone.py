"""Run `airflow standalone` with our pool on loopback only, and end it with its parent process.

The scheduler and the triggerer would serve their log files on every address of the machine, and no setting changes
that. On one machine the API server reads the files itself, so an option switches these servers off.
"""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from airflow.cli.commands import standalone_command
from airflow.cli.commands.pool_command import pool_import_helper
from airflow.configuration import write_default_airflow_configuration_if_needed

POOLS = Path(__file__).parent / "pools.json"
SERVES_LOGS = ("scheduler", "triggerer")


class LoopbackCommand(standalone_command.SubCommand):
    """A component that serves no log files."""

    def __init__(self, parent: Any, name: str, command: list[str], env: dict[str, str]) -> None:
        if name in SERVES_LOGS:
            command = [*command, "--skip-serve-logs"]
        super().__init__(parent, name, command, env)


class PreparedCommand(standalone_command.StandaloneCommand):
    """An Airflow with its configuration, its tables and our pools before any component starts."""

    def initialize_database(self) -> None:
        """Make or migrate the tables, and set the pools; safe to run again."""
        super().initialize_database()
        pool_import_helper(str(POOLS))


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
    # As the program `airflow` does: components that write it at the same time would not have the same keys.
    write_default_airflow_configuration_if_needed()
    PreparedCommand().run()
