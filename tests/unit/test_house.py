"""Check the rules of the code: imports point down, files and functions are small and documented, pins agree."""

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import numpy as np
import pytest
from packaging.requirements import Requirement
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "pststream").rglob("*.py"))
LONGEST_FILE = 450
LONGEST_FUNCTION = 60
MOST_MODULES = 20
MAY_USE_SPARK = {"cli", "benchmarks", "pipeline"}


def named(file: Path) -> str:
    return str(file.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function without its docstring."""
    first = function.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring = first.end_lineno - first.lineno + 1 if documented and first.end_lineno else 0
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


def test_every_room_is_under_contract() -> None:
    rooms = modules_and_packages()
    assert rooms - MAY_USE_SPARK <= sources("no-spark"), "add the new room to .importlinter"
    assert rooms - {"kernels", "names", "errors", "settings"} <= sources("numba"), "add the new room to .importlinter"


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    names = sorted(imports)
    number = {name: place for place, name in enumerate(names)}
    edges = [(number[name], number[other]) for name in names for other in imports[name]]
    rows, columns = zip(*edges, strict=True) if edges else ((), ())
    matrix = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))
    count, label = connected_components(matrix, directed=True, connection="strong")
    groups = [[name for name, of in zip(names, label) if of == group] for group in range(count)]
    return [group for group in groups if len(group) > 1]


def test_cycles_are_recognised() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("pststream", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imports) > len(FILES) / 2
    assert cycles(imports) == []


@pytest.mark.parametrize("folder", sorted({file.parent for file in FILES}), ids=named)
def test_a_folder_is_small(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES


@pytest.mark.parametrize("file", FILES, ids=named)
def test_a_file_is_documented_and_small(file: Path) -> None:
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no module docstring"
    assert text.count("\n") <= LONGEST_FILE
    long = {function.name: length(function) for function in functions(tree) if length(function) > LONGEST_FUNCTION}
    assert not long, f"longer than {LONGEST_FUNCTION} lines"


def test_the_lock_has_hashes_and_names_no_host() -> None:
    lock = (ROOT / "requirements.txt").read_text("utf-8")
    packages = re.findall(r"^\S+==\S+", lock, re.MULTILINE)
    hashed = re.findall(r"^\S+==[^\\\n]+\\\n    --hash=sha256:", lock, re.MULTILINE)
    assert len(packages) == len(hashed) > 0
    assert "://" not in lock
    assert "index-url" not in lock


def test_the_lock_has_what_the_project_asks_for() -> None:
    locked = dict(re.findall(r"^([\w.-]+)==([\w.+]+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE))
    for line in (ROOT / "requirements.in").read_text("utf-8").splitlines():
        if asked := line.split("#")[0].strip():
            wanted = Requirement(asked)
            assert locked.get(wanted.name, "") in wanted.specifier, f"{asked} is not what is locked: make lock"
