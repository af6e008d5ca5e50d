"""The rules of the house: imports point down, files and functions stay small, all is documented, pins agree."""

import ast
import configparser
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "pststream").rglob("*.py"))
LONGEST_FILE = 450
LONGEST_FUNCTION = 60
MOST_MODULES = 20
"""Modules of a package, without __init__.py."""

EXEMPT = {
    "no-spark": {"airflow", "cli", "benchmarks", "pipeline"},
    "delta-rs": {"airflow", "state", "reports", "delta_tables", "open_tables"},
    "numba": {"airflow", "kernels", "names", "errors", "settings"},
    "no-airflow": {"airflow"},
}
"""Packages and modules that need not be in the list of an import contract."""


def named(file: Path) -> str:
    return str(file.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, without its docstring."""
    first = function.body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring = first.end_lineno - first.lineno + 1 if is_text and first.end_lineno else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def modules_and_packages() -> set[str]:
    """Return the names of the modules and packages directly in pststream/."""
    paths = (path for path in (ROOT / "pststream").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())
    return {path.stem for path in paths} - {"__init__"}


def contracts() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter", "utf-8")
    return parser


def sources(contract: str) -> set[str]:
    return {
        name.removeprefix("pststream.")
        for name in contracts()[f"importlinter:contract:{contract}"]["source_modules"].split()
    }


def test_imports_keep_their_contracts() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_is_under_contract() -> None:
    packages = modules_and_packages()
    for contract, exempt in EXEMPT.items():
        assert packages - exempt <= sources(contract), f"add the package to {contract} in .importlinter"


def faults_of(text: str) -> list[str]:
    """Return what a module lacks or has too much of."""
    tree = ast.parse(text)
    faults = [] if ast.get_docstring(tree) else ["no module docstring"]
    if (lines := text.count("\n")) > LONGEST_FILE:
        faults.append(f"{lines} lines")
    long = {function.name: length(function) for function in functions(tree) if length(function) > LONGEST_FUNCTION}
    return [*faults, *(f"{name}: {lines} lines" for name, lines in long.items())]


def test_the_faults_of_a_file_are_its_docstring_its_lines_and_its_functions() -> None:
    lines = "    pass\n" * LONGEST_FILE
    assert faults_of(f"def f():\n{lines}") == ["no module docstring", "451 lines", "f: 451 lines"]
    short = "    pass\n" * (LONGEST_FUNCTION - 1)
    assert faults_of(f'"""A."""\ndef f():\n    """B."""\n{short}') == []


def test_files_are_documented_and_small() -> None:
    """One test for all files: a test for each would take longer to start and to report than to run."""
    faults = {named(file): faults_of(file.read_text("utf-8")) for file in FILES}
    assert faults
    assert {name: some for name, some in faults.items() if some} == {}


def test_packages_are_small() -> None:
    modules = Counter(named(file.parent) for file in FILES if file.name != "__init__.py")
    assert {package: count for package, count in modules.items() if count > MOST_MODULES} == {}


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
