"""The read-only commands start fast: they load neither the template engine nor the pages."""

import subprocess
import sys

import pytest

COMMANDS = ("status", "metrics", "explain", "plans", "listings", "comparisons")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_no_page(command: str) -> None:
    program = (
        f"import sys, pststream.cli.main, pststream.reports.commands.{command}\n"
        "print(sorted(name for name in sys.modules if name in ('jinja2', 'pststream.reports.pages')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
