"""Time to match or parse a hostile text grows with its length, not with its square, wherever a pattern meets one."""

import ast
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pststream
from pststream.base.texts import mask_urls
from pststream.input import data_docs, raw_values
from pststream.input.parse_times import parse_times
from pststream.queries import conditions, decode_json
from pststream.queries.kinds import topk
from pststream.queries.text import expression, words
from pststream.reports.pages import answer_section
from pststream.tables import table_files

ROOT = Path(pststream.__file__).parent
FACTOR = 16
MOST_GROWTH = 5 * FACTOR
"""A text 16 times as long may take 80 times as long, which allows for noise; with backtracking it takes 256 times."""

SECOND, LEAP, MIDNIGHT = (f"2026-01-01T{clock}." for clock in ("00:00:00", "23:59:60", "24:00:00"))


def number(text: str) -> object:
    """Match the pattern of numbers; `to_numbers` would not try a text of this length."""
    return raw_values._NUMBER.fullmatch(text)


def column(text: str) -> object:
    """Convert a column in which another text is no number either."""
    return raw_values.to_numbers(pa.array([text, "x"]))


def keywords(text: str) -> object:
    """Parse an expression of any length."""
    return expression._TOKEN.findall(text)


def foreign_operators(text: str) -> object:
    """Look for the operators of other languages in a word."""
    return [form.fullmatch(text) for form, _ in expression._FOREIGN_OPERATORS]


def cell(text: str) -> object:
    """Test whether a cell of an export is a number."""
    return pc.match_substring_regex(pa.array([text]), table_files._NUMBER)


def operators(text: str) -> object:
    """Look for an operator among the words of a `topk` request."""
    return pc.match_substring_regex(pa.array([text]), topk._PERHAPS_OPERATOR)


def marked(text: str) -> object:
    """Mark what a spreadsheet may take for formulas in a cell of an export."""
    return table_files.csv_fields(pa.array([text], pa.large_string()))


def attribute(text: str) -> object:
    """Read an attribute as a number and as a time, in a column and without one."""
    numbers, times = conditions.numbers_of_texts(pa.array([text])), conditions.times_of_texts(pa.array([text]))
    return numbers, times, conditions._as_number("text", text), conditions._as_time("text", text)


MEASURED: list[tuple[str, int, Callable[[str], object], Callable[[int], str]]] = [
    ("digits", 500, number, lambda n: "1" * n + "x"),
    ("digits and a point", 500, number, lambda n: "1" * n + "." + "1" * n + "x"),
    ("fraction", 500, number, lambda n: "." + "1" * n + "x"),
    ("exponent", 500, number, lambda n: "1e" + "1" * n + "x"),
    ("signs", 500, number, lambda n: "+" * n),
    ("column of digits", 20_000, column, lambda n: "1" * n + "x"),
    ("column of blanks", 20_000, column, lambda n: "1" + " " * n + "x"),
    ("time of digits", 20_000, lambda text: parse_times(pa.array([text]), "UTC"), lambda n: "1" * n + "x"),
    ("time of a date", 20_000, lambda text: parse_times(pa.array([text]), "UTC"), lambda n: "0000-" + "1" * n),
    ("time of a fraction", 20_000, lambda text: parse_times(pa.array([text]), "UTC"), lambda n: SECOND + "1" * n + "x"),
    ("time of a leap", 20_000, lambda text: parse_times(pa.array([text]), "UTC"), lambda n: LEAP + "0" * n + "x"),
    ("time of midnight", 20_000, lambda text: parse_times(pa.array([text]), "UTC"), lambda n: MIDNIGHT + "0" * n + "x"),
    ("escapes", 20_000, decode_json._find_excess, lambda n: "\\" * n),
    ("short runs", 5_000, words.tokenize, lambda n: ("é" * 1_000 + "a") * (n // 1_000)),
    ("marks", 2_000, words.tokenize, lambda n: "a" + "\u0301\u0316" * n),
    ("unassigned", 2_000, words.hide_unassigned, lambda n: "\u0378\U0001f4a9" * n),
    ("quotes", 20_000, keywords, lambda n: '"' + "a" * n),
    ("many quotes", 20_000, keywords, lambda n: '" ' * n),
    ("parentheses", 20_000, keywords, lambda n: "(" * n),
    ("emoji", 2_000, words.tokenize, lambda n: "\U0001f1e9\U0001f3fb\U000e0067\ufe0f\u20e31\U0001f0a1" * n),
    ("tags", 20_000, words.tokenize, lambda n: "\U0001f3f4" + "\U000e0067" * n),
    ("similar words", 20_000, foreign_operators, lambda n: "a~1" * n + "x"),
    ("weights", 20_000, foreign_operators, lambda n: "a^" + "1" * n + "x"),
    ("fields", 20_000, foreign_operators, lambda n: "a" * n + ":"),
    ("letters", 20_000, foreign_operators, lambda n: "*" * n),
    ("operators", 20_000, operators, lambda n: "ANDOR" * n),
    ("blanks of a page", 20_000, answer_section._SPACES.split, lambda n: " " * n + "x"),
    ("path of a page", 2_000, data_docs.PAGE.fullmatch, lambda n: "a/" * n + "a" * n + ".htm"),
    ("start of a cell", 20_000, marked, lambda n: "'" * n + " " * n + "x"),
    ("inside a cell", 20_000, marked, lambda n: ";'" * n + "; " * n + "x"),
    ("URL in an error", 20_000, mask_urls, lambda n: "http://" + "/@?:" * n + "://" * n),
    ("attribute of digits", 20_000, attribute, lambda n: "1" * n + "." + "1" * n + "e" + "1" * n + "x"),
    ("attribute of blanks", 20_000, attribute, lambda n: " " * n + "x" + " " * n),
    ("attribute of a fraction", 20_000, attribute, lambda n: SECOND + "1" * n),
    ("number of a cell", 20_000, cell, lambda n: "+" + "1" * n + "x"),
]


@pytest.mark.parametrize(("name", "size", "run", "make"), MEASURED, ids=[name for name, *_ in MEASURED])
def test_time_grows_in_proportion_to_the_length(
    name: str, size: int, run: Callable[[str], object], make: Callable[[int], str]
) -> None:
    short, long = (_least_seconds(run, make(times * size)) for times in (1, FACTOR))
    assert long <= MOST_GROWTH * max(short, 2e-5), f"{name}: {short:.6f} s, then {long:.6f} s"


def _least_seconds(run: Callable[[str], object], text: str) -> float:
    seconds = []
    for _ in range(5):
        began = time.process_time()
        run(text)
        seconds.append(time.process_time() - began)
    return min(seconds)


def test_a_short_run_is_read_once() -> None:
    """Without the lookbehind each place in a run of 1,000 foreign characters reads the rest of the run again."""
    plain, foreign = "a" * 200_000, ("é" * 1_000 + "a") * 200
    run = words._FOREIGN_RUN.search
    assert _least_seconds(run, foreign) <= 20 * max(_least_seconds(run, plain), 2e-4)


LOOKED_AT = {
    # A stranger's text meets these; they are in MEASURED, or Arrow runs them, whose automata do not backtrack.
    "input/attributes.py",
    "input/raw_values.py", "input/parse_times.py", "input/request_fields.py", "queries/text/words.py",
    "queries/conditions.py", "queries/text/expression.py", "queries/text/tokenizer.py", "queries/decode_json.py",
    "reports/pages/answer_section.py", "tables/table_files.py",
    "pipeline/upkeep/row_changes.py", "base/texts.py", "queries/kinds/topk.py", "tables/ledgers.py",
    # A duration, a whole number and a number of objects have one start and at most 26 characters.
    "queries/kinds/fields.py", "search/ask.py",
    # The texts are rejects, of at most 1,000 characters, or the frames of an error; one start each.
    "reports/commands/explain_rows.py", "base/errors.py",
    # Great Expectations writes the pages and escapes texts in them; the path of a page is measured.
    "input/data_docs.py",
    # Operators, Airflow or this package write the texts.
    "input/run_suites.py", "input/suite_files.py", "settings.py",
    "workloads/demo_files.py", "delivery/sinks/registry.py", "airflow/runners/engine_choice.py",
    "storage/registry.py",
    "airflow/runners/job_log.py",
    "airflow/pages_plugin.py", "airflow/dag_options.py", "cli/doctor.py",
    "reports/views.py", "cli/reading_commands.py", "pipeline/jobs/job.py",
    "pipeline/ingest/ingest.py", "pipeline/ingest/stage_file.py", "cli/command.py", "airflow/pages_app.py",
}  # fmt: skip


def test_every_module_with_a_pattern_was_looked_at() -> None:
    """Measure the patterns of a module that is new here if a stranger's text can meet them, then list it."""
    modules = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if _has_pattern(path)}
    assert modules == LOOKED_AT


def _has_pattern(path: Path) -> bool:
    text = path.read_text("utf-8")
    if "import re\n" not in text and "_regex(" not in text:
        return False
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    arrow = any(node.attr.endswith("_regex") for node in nodes)
    return arrow or any(ast.unparse(node.value) == "re" and node.attr not in ("Pattern", "Match") for node in nodes)
