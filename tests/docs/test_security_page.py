"""Each protection that docs/security.md claims names tests, and these tests exist."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
NO_CLAIMS = ("", "Assets", "Trust", "Known limits")
"""Sections without protections: the introduction, the terms of the others, and what is not protected."""

HEADER, DIVIDER = "|threat|protection|tested by|", "|---|---|---|"
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


def lines_of_claims(text: str) -> list[str]:
    """Return the lines of the sections with claims, without headings, empty lines and the head of the table."""
    section, lines = "", []
    for line in text.splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ") if line.startswith("## ") else section
        elif line and section not in NO_CLAIMS and line not in (HEADER, DIVIDER):
            lines.append(line)
    return lines


def fault_of(line: str) -> str:
    """Return what is wrong with a line of a claim; empty if it names tests that exist."""
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
    if len(cells) != 5 or cells[0] or cells[4]:
        return "no row of threat, protection and tests"
    if not all(cells[1:4]):
        return "a cell is empty"
    if TEST.sub("", cells[3]).strip(", "):
        return "the last cell has something other than `tests/folder/test_file.py` or `...::test_name`"
    missing = [f"{file}::{test}" for file, test in TEST.findall(cells[3]) if not existing(file, test)]
    return f"there is no {', '.join(missing)}" if missing else ""


@functools.cache
def existing(file: str, name: str = "") -> list[str]:
    """Return the tests of a file, or the one with this name, as pytest collects them: `test_...` with a body."""
    if not (ROOT / file).is_file() or not Path(file).name.startswith("test_"):
        return []
    functions = [node for node in ast.parse((ROOT / file).read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if node.name.startswith("test_") and name in ("", node.name)]


@pytest.mark.parametrize("line", lines_of_claims(PAGE.read_text("utf-8")), ids=lambda line: line[:60])
def test_each_protection_names_tests_that_exist(line: str) -> None:
    assert not fault_of(line)


def test_the_page_claims_something_in_each_section() -> None:
    sections = re.findall(r"^## (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(NO_CLAIMS[1:]) < set(sections)
    for section in set(sections) - set(NO_CLAIMS):
        text = PAGE.read_text("utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
        assert text.count(HEADER) == 1 and len(lines_of_claims(f"## {section}\n{text}")) > 1, section


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("| a | b | `tests/docs/test_security_page.py` |", ""),
        ("| a | b | `tests/docs/test_security_page.py::test_faults_are_noticed` |", ""),
        ("| a | b | `tests/docs/test_security_page.py::test_nothing` |", "there is no"),
        ("| a | b | `tests/docs/test_paths_of_old.py` |", "there is no"),
        ("| a | b | `tests/docs/fences.py` |", "there is no"),
        ("| a | b | `tests/docs` |", "something other"),
        ("| a | b | by hand |", "something other"),
        ("| a | b | |", "a cell is empty"),
        ("| a | b |", "no row"),
        ("- Everything is safe.", "no row"),
    ],
)
def test_faults_are_noticed(line: str, fault: str) -> None:
    assert lines_of_claims(f"# Page\n## Input\n{HEADER}\n{DIVIDER}\n{line}\n## Assets\nprose\n") == [line]
    assert fault in fault_of(line) and bool(fault) == bool(fault_of(line))
