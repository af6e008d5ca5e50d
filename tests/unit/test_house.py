"""The rules of the house: rooms, imports that point down, documented modules, pins that agree."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "pststream").rglob("*.py"))
MOST_ROOMS = 20
MOST_MODULES = 440
MOST_WITH_ONE_IMPORTER = 60
"""Modules that only one module of their own package imports: each is an idea of its own, or it belongs there."""


def test_imports_keep_their_contracts() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_house_has_twenty_rooms_and_few_modules() -> None:
    """A room is a package, or a module, directly in pststream/; `api` and `settings` are modules."""
    rooms = {file.relative_to(ROOT / "pststream").parts[0].removesuffix(".py") for file in FILES} - {"__init__", "api"}
    assert len(rooms) <= MOST_ROOMS, sorted(rooms)
    assert len(FILES) <= MOST_MODULES


def test_few_modules_have_one_importer_in_their_package() -> None:
    modules = {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES}
    importers = defaultdict(set)
    for file in FILES:
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)} & modules:
                    importers[name].add(module)
    package = lambda module: module.rpartition(".")[0]  # noqa: E731
    single = {name for name, by in importers.items() if len(by) == 1 and package(min(by)) == package(name)}
    assert len(single) <= MOST_WITH_ONE_IMPORTER, sorted(single)


@pytest.mark.parametrize("name", ["requirements.txt", "infra/audit/requirements.txt", "infra/peers/requirements.txt"])
def test_the_lock_has_hashes_and_names_no_host(name: str) -> None:
    lock = (ROOT / name).read_text("utf-8")
    packages = re.findall(r"^\S+==\S+", lock, re.MULTILINE)
    hashed = re.findall(r"^\S+==[^\\\n]+\\\n    --hash=sha256:", lock, re.MULTILINE)
    assert len(packages) == len(hashed) > 0
    assert "://" not in lock
    assert "index-url" not in lock


def test_each_package_that_make_installs_comes_from_a_lock_with_hashes() -> None:
    """`pip install .` of the project itself, without an index, and `uv pip compile` download no package to run."""
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    commands = re.findall(r"^\t.*(?:pip install|tool run|uvx|pipx|npx).*$", makefile, re.MULTILINE)
    assert len(commands) >= 4
    assert [line for line in commands if "--require-hashes" not in line and "--no-index" not in line] == []


def test_the_lock_has_what_the_project_asks_for() -> None:
    locked = dict(re.findall(r"^([\w.-]+)==([\w.+]+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE))
    for line in (ROOT / "requirements.in").read_text("utf-8").splitlines():
        if asked := line.split("#")[0].strip():
            wanted = Requirement(asked)
            assert locked.get(wanted.name, "") in wanted.specifier, f"{asked} is not what is locked: make lock"
