"""Refuse words that readers from outside misread, and first lines that ask a riddle: `make style`.

docs/glossary.md has the terms to use instead.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("pststream", "dags", "jobs", "infra")
WORDS = re.compile(
    r"(?<!\.)\b(anew|lest|whereof|thereof|whereby|hitherto|henceforth|amiss|nowise|told|tells?|telling|tally|tallies|dearer?|"
    r"tak(?:e|es|en|ing) back|taken in|takes in|giv(?:e|es|en|ing) back|for good|worked in|beside (?:it|them)|"
    r"stands? by|as it stands|that which|what is more|dealt out)\b",
    re.IGNORECASE,
)
NAMES = re.compile(r"\b(found|held)\b", re.IGNORECASE)
"""In identifiers that a module defines, split at underscores; prose may use these words."""

FIRST_LINE = re.compile(r'"""(?!(What|Which|Whether|How|Where|That|Who|Whose|When|Why)\b).')
ALLOWED = {
    "pststream/reports/pages/airflow_views.py": {"found"},  # NOT_FOUND is the name of an HTTP status
}


def names_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the identifiers that a module defines, split at underscores, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name.replace("_", " ")
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg.replace("_", " ")
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, (node.id if isinstance(node, ast.Name) else node.attr).replace("_", " ")


def faults_of(path: Path) -> Iterator[str]:
    """Yield the banned words of a module or page, and a first line that does not say what the module does."""
    name, source = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    is_module = path.suffix == ".py"
    if is_module and not name.startswith("infra/image/") and not FIRST_LINE.match(source):
        yield f"{name}:1: the first line does not say what the module does"
    hits = [(line, text, WORDS) for line, text in enumerate(source.splitlines(), start=1) if WORDS.search(text)]
    spaced = source.replace("_", " ")
    if is_module and (WORDS.search(spaced) or NAMES.search(spaced)):
        hits += [(line, text, banned) for line, text in names_of(source) for banned in (WORDS, NAMES)]
    for line, text, banned in hits:
        for match in banned.finditer(text):
            if match[0].lower() not in ALLOWED.get(name, ()):
                yield f"{name}:{line}: {match[0]!r}"


def main() -> int:
    """Print the faults of all modules and pages; return 1 if there are some."""
    modules = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "pststream").rglob("*.md")]
    paths = sorted({*modules, *pages} - {Path(__file__)})
    faults = [fault for path in paths for fault in faults_of(path)]
    print("\n".join([*faults, f"{len(paths)} files, {len(faults)} words or first lines to change"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
