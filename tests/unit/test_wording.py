"""Names and prose follow the glossary: plain first lines of modules, no archaic or ambiguous words."""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

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
    "pststream/reports/pages/airflow_views.py": {"found"},  # NOT_FOUND is the name of an HTTP status
}
RIDDLE = re.compile(r"(What|Which|Whether|How|Where|That|Who|Whose|When|Why)\b")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.lru_cache(maxsize=1)
def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module, in which several searches look one after the other."""
    return ast.parse(text)


def prose_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, other strings and comments of a module with their lines."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def names_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield the identifiers that a module defines, split at underscores, with their lines."""
    for node in ast.walk(parsed(text)):
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


def faults_of(name: str, text: str) -> list[str]:
    """Return the banned words of a module, and its first line if that does not say what the module does."""
    allowed = ALLOWED.get(name, set())
    faults = [*banned_words(prose_of(text), allowed), *banned_words(names_of(text), allowed, BANNED_NAMES)]
    first = (ast.get_docstring(parsed(text)) or "").split("\n")[0]
    if not name.startswith("infra/image/") and (not first or RIDDLE.match(first)):
        faults.append(f"first line: {first!r}")
    return faults


def test_the_faults_of_a_module_are_words_of_prose_names_and_its_first_line() -> None:
    module = '"""Who is told."""\n'
    assert faults_of("pststream/a.py", module) == ["line 1: 'told'", "first line: 'Who is told.'"]
    assert faults_of("infra/image/a.py", module) == ["line 1: 'told'"]
    assert faults_of("pststream/a.py", "held = 1\n") == ["line 1: 'held'", "first line: ''"]
    assert faults_of("pststream/a.py", '"""Count rows."""\n') == []


def test_modules_are_worded_plainly() -> None:
    """One test for all modules: a test for each would take longer to start and to report than to run."""
    faults = {named(path): faults_of(named(path), path.read_text("utf-8")) for path in MODULES}
    assert faults
    assert {name: some for name, some in faults.items() if some} == {}


def test_documents_have_no_banned_words() -> None:
    lines = {named(path): enumerate(path.read_text("utf-8").splitlines(), start=1) for path in DOCUMENTS}
    faults = {name: banned_words(of_one, set()) for name, of_one in lines.items()}
    assert faults
    assert {name: some for name, some in faults.items() if some} == {}
