"""Names and prose follow the glossary: plain first lines of modules, no archaic or ambiguous words."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("pststream", "dags", "jobs", "infra")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

BANNED = re.compile(
    r"\b(anew|lest|whereof|thereof|whereby|hitherto|henceforth|amiss|nowise|told|tells?|telling|tally|tallies|dearer?|"
    r"tak(?:e|es|en|ing) back|taken in|takes in|giv(?:e|es|en|ing) back|for good|worked in|beside (?:it|them)|"
    r"stands? by|as it stands|that which|what is more|dealt out)\b",
    re.IGNORECASE,
)
"""Words that readers from outside misread; docs/glossary.md has the terms to use instead."""

BANNED_NAMES = re.compile(rf"{BANNED.pattern}|\b(found|held)\b", re.IGNORECASE)
"""Words banned in identifiers, split at underscores; prose may use `found` and `held`."""

ALLOWED = {
    "pststream/pipeline/adjusting/proposal_file.py": {"told"},  # name of an array in files of older versions
    "pststream/state/upgrade.py": {"told"},  # name of a column of homes before format 6
    "pststream/reports/pages/airflow_views.py": {"found"},  # NOT_FOUND is the name of an HTTP status
}
RIDDLE = re.compile(r"(What|Which|Whether|How|Where|That|Who|Whose|When|Why)\b")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, other strings and comments of a module with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def names_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the identifiers that a module defines, split at underscores, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name.replace("_", " ")
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg.replace("_", " ")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id.replace("_", " ")
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr.replace("_", " ")


def banned_words(lines: Iterator[tuple[int, str]], allowed: set[str], banned: re.Pattern[str] = BANNED) -> list[str]:
    """Return the banned words of these texts with their lines."""
    return sorted(
        f"line {line}: {match[0]!r}"
        for line, text in lines
        for match in banned.finditer(text)
        if match[0].lower() not in allowed
    )


def test_the_search_finds_docstrings_comments_names_and_errors() -> None:
    text = '"""Tells."""\n\n\ndef told_by(x):  # anew\n    raise ValueError(f"{x} is amiss")\n'
    assert banned_words(prose_of(text), set()) == ["line 1: 'Tells'", "line 4: 'anew'", "line 5: 'amiss'"]
    assert banned_words(names_of(text), set(), BANNED_NAMES) == ["line 4: 'told'"]


def test_the_search_finds_arguments_variables_attributes_and_functions() -> None:
    text = "def is_held(found):\n    held_rows = found\n    self.FOUND_at = told = withheld = foundation = held_rows\n"
    names = ["line 1: 'found'", "line 1: 'held'", "line 2: 'held'", "line 3: 'FOUND'", "line 3: 'told'"]
    assert banned_words(names_of(text), set(), BANNED_NAMES) == names
    assert banned_words(names_of(text), {"told"}, BANNED_NAMES) == names[:-1]


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_a_module_has_no_banned_words(path: Path) -> None:
    text, allowed = path.read_text("utf-8"), ALLOWED.get(named(path), set())
    assert not banned_words(prose_of(text), allowed)
    assert not banned_words(names_of(text), allowed, BANNED_NAMES)


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_a_document_has_no_banned_words(path: Path) -> None:
    lines = enumerate(path.read_text("utf-8").splitlines(), start=1)
    assert not banned_words(iter(lines), set())


@pytest.mark.parametrize("path", [path for path in MODULES if path.parts[-3:-1] != ("infra", "image")], ids=named)
def test_the_first_line_says_what_a_module_does(path: Path) -> None:
    first = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]
    assert first, "no module docstring"
    assert not RIDDLE.match(first), first
