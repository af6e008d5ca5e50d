"""Report the test modules that take the most CPU time: tests run side by side, so elapsed times say little.

A test has the CPU time of its process, of its fixtures, and of the child processes that have ended. A child that lives
on, as the JVM of Spark does, counts where it ends.
"""

import os
from collections import Counter
from collections.abc import Generator

import pytest

MODULES = 15
"""Modules that are listed."""

PROPERTY = "cpu_seconds"
_start = pytest.StashKey[float]()


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the CPU time before the fixtures of a test are made."""
    item.stash[_start] = _cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the CPU time of a test to the report of its end, which a process of xdist sends to the first one."""
    if call.when == "teardown" and _start in item.stash:
        item.user_properties.append((PROPERTY, _cpu_seconds() - item.stash[_start]))
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the modules that took the most, and the sums of folders."""
    modules, folders = Counter[str](), Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "teardown":
                seconds = dict(report.user_properties).get(PROPERTY, 0.0)
                module = report.nodeid.partition("::")[0]
                modules[module] += seconds
                folders["/".join(module.split("/")[:2])] += seconds
    if modules.total() >= 1:
        terminalreporter.section(f"CPU time: {modules.total():.0f} s")
        for name, seconds in [*folders.most_common(), *modules.most_common(MODULES)]:
            terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
