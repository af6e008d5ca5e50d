"""Read, write and delete the suites of a home, JSON files in `expectations/`, and check them without any library.

Great Expectations judges by a suite, but its file is data from whoever may write to the home. So the expectations are
those of a list, and what the library would evaluate as code or as an expression is refused (`REFUSED`, `$PARAMETER`).
SUBJECTS declares which columns of landed rows, stored rows and pairs a suite judges, as pandas frames.
"""

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.arrow_columns import TIME
from pststream.base.errors import SuiteError, UsageError
from pststream.queries.decode_json import decode_json
from pststream.storage.contract import Files

if TYPE_CHECKING:
    import pandas as pd


LANDED_OBJECTS, LANDED_REQUESTS = "landed_objects", "landed_requests"
OBJECTS, REQUESTS, PAIRS = "objects", "requests", "pairs"

SUBJECTS: dict[str, pa.Schema] = {
    LANDED_OBJECTS: pa.schema(
        [
            ("row", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()),
            ("lat", pa.float64()), ("text", pa.string()),
        ]
    ),
    LANDED_REQUESTS: pa.schema(
        [
            ("row", pa.int64()), ("op", pa.string()), ("owner", pa.string()), ("subscription_id", pa.string()),
            ("kind", pa.string()), ("effective_at", TIME), ("expires_at", TIME), ("payload", pa.string()),
        ]
    ),
    OBJECTS: pa.schema(
        [
            ("object_key", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("lon", pa.float64()),
            ("lat", pa.float64()), ("text", pa.string()), ("ingest_id", pa.int64()),
        ]
    ),
    REQUESTS: pa.schema(
        [
            ("request_key", pa.int64()), ("op", pa.string()), ("owner", pa.string()), ("subscription_id", pa.string()),
            ("subscription_key", pa.int64()), ("kind", pa.string()), ("effective_at", TIME), ("expires_at", TIME),
            ("payload", pa.string()), ("ingest_id", pa.int64()),
        ]
    ),
    PAIRS: pa.schema(
        [
            ("object_key", pa.int64()), ("object_id", pa.string()), ("ts", TIME), ("subscription_key", pa.int64()),
            ("owner", pa.string()), ("subscription_id", pa.string()), ("payload", pa.string()),
            ("batch_id", pa.int64()), ("plan_version", pa.int64()), ("worker", pa.int64()),
        ]
    ),
}  # fmt: skip
"""The columns that suites judge, by the folder of the suites. `row` is the number of the row in its file."""

LANDED = {"objects": LANDED_OBJECTS, "requests": LANDED_REQUESTS}
"""The subject of a file's rows, by the kind of the file."""


def draw_places(count: int, limit: int, seed: str) -> np.ndarray | None:
    """Draw `limit` of `count` places at random, ascending, the same ones for a seed; None if all may be taken."""
    if count <= limit:
        return None
    generator = np.random.default_rng(int.from_bytes(sha256(seed.encode()).digest()))
    return np.sort(generator.choice(count, limit, replace=False, shuffle=False))


def make_frame(rows: pa.Table) -> "pd.DataFrame":
    """Return rows as pandas holds them; a text of white space only is null."""
    columns = [_without_blanks(rows.column(name)) for name in rows.schema.names]
    return pa.Table.from_arrays(columns, rows.schema.names).to_pandas()


def make_example(subject: str) -> "pd.DataFrame":
    """Return three rows on which an expectation that fits the columns can be computed."""
    examples: dict[Any, list[Any]] = {
        pa.int64(): [1, 2, 3],
        pa.float64(): [1.0, 2.5, None],
        pa.string(): ["one", "two", None],
        TIME: [1_700_000_000_000_000, 1_800_000_000_000_000, None],
    }
    schema = SUBJECTS[subject]
    return make_frame(pa.Table.from_pydict({field.name: examples[field.type] for field in schema}, schema=schema))


def _without_blanks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.type != pa.string():
        return column
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(column), ""), pa.scalar(None, pa.string()), column)


FOLDER = "expectations"
ENDING = ".json"
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")

EXPECTATIONS = frozenset(
    """
    expect_column_distinct_values_to_be_in_set expect_column_distinct_values_to_contain_set
    expect_column_distinct_values_to_equal_set expect_column_max_to_be_between expect_column_mean_to_be_between
    expect_column_median_to_be_between expect_column_min_to_be_between expect_column_most_common_value_to_be_in_set
    expect_column_pair_values_a_to_be_greater_than_b expect_column_pair_values_to_be_equal
    expect_column_pair_values_to_be_in_set expect_column_proportion_of_non_null_values_to_be_between
    expect_column_proportion_of_unique_values_to_be_between expect_column_stdev_to_be_between
    expect_column_sum_to_be_between expect_column_unique_value_count_to_be_between
    expect_column_value_lengths_to_be_between expect_column_value_lengths_to_equal
    expect_column_value_z_scores_to_be_less_than expect_column_values_to_be_between
    expect_column_values_to_be_decreasing expect_column_values_to_be_in_set expect_column_values_to_be_increasing
    expect_column_values_to_be_json_parseable expect_column_values_to_be_null expect_column_values_to_be_unique
    expect_column_values_to_match_regex expect_column_values_to_match_regex_list
    expect_column_values_to_match_strftime_format expect_column_values_to_not_be_in_set
    expect_column_values_to_not_be_null expect_column_values_to_not_match_regex
    expect_column_values_to_not_match_regex_list expect_compound_columns_to_be_unique
    expect_multicolumn_sum_to_equal expect_select_column_values_to_be_unique_within_record
    """.split()
)
"""The expectations that a suite may have: those of columns that can be computed from the rows alone.

Left out: row counts, since of many rows a sample is judged; types and names of columns, which are always the same; SQL;
JSON schemas, which may refer to other addresses.
"""

REFUSED = frozenset({"row_condition", "condition_parser", "windows"})
"""Arguments that pandas would evaluate as an expression, or that need results of earlier runs."""

COLUMN_KEYS = ("column", "column_A", "column_B", "column_list")
SUITE_KEYS = {"name", "expectations", "meta", "notes", "id", "suite_parameters"}
EXPECTATION_KEYS = {"type", "kwargs", "meta", "notes", "description", "severity", "id"}


DEFAULT_NAME = "default"

_DEFAULTS = {
    OBJECTS: [
        ("expect_column_values_to_be_unique", {"column": "object_key"}),
        ("expect_column_values_to_not_be_null", {"column": "ts"}),
        ("expect_column_values_to_be_between", {"column": "lon", "min_value": -180, "max_value": 180}),
        ("expect_column_values_to_be_between", {"column": "lat", "min_value": -90, "max_value": 90}),
    ],
    REQUESTS: [
        ("expect_column_values_to_not_be_null", {"column": "subscription_id"}),
        ("expect_column_values_to_be_in_set", {"column": "op", "value_set": ["insert", "delete"]}),
        ("expect_column_values_to_not_be_null", {"column": "effective_at"}),
    ],
    PAIRS: [
        ("expect_compound_columns_to_be_unique", {"column_list": ["object_key", "subscription_key"]}),
        ("expect_column_values_to_not_be_null", {"column": "object_id"}),
        ("expect_column_values_to_not_be_null", {"column": "subscription_id"}),
    ],
}


@dataclass(frozen=True)
class ExpectationText:
    """One expectation of a suite: its type, its arguments, and a description for readers."""

    type: str
    arguments: dict[str, Any]
    description: str | None

    @property
    def columns(self) -> list[str]:
        """The columns that it names."""
        named = [self.arguments[key] for key in COLUMN_KEYS if key in self.arguments]
        return [name for one in named for name in (one if isinstance(one, list) else [one])]

    def __str__(self) -> str:
        """Return the expectation on one line, as errors and reasons name it."""
        return f"{self.type}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


@dataclass(frozen=True)
class Suite:
    """A suite of a home: what it judges, its name, the address of its file, and its content."""

    subject: str
    name: str
    path: str
    content: bytes
    expectations: tuple[ExpectationText, ...] = field(compare=False, repr=False)

    @property
    def label(self) -> str:
        """Folder and name, as tables and messages name it."""
        return f"{self.subject}/{self.name}"

    @property
    def columns(self) -> list[str]:
        """The columns that its expectations name, in the order of the subject."""
        named = {name for one in self.expectations for name in one.columns}
        return [name for name in SUBJECTS[self.subject].names if name in named]


def read_suites(files: Files, home: str, subject: str) -> list[Suite]:
    """Return the suites of a subject, by name; raises SuiteError for the first file that is no suite.

    home: its address, for error messages
    """
    suites = []
    for name in files.names(f"{FOLDER}/{subject}"):
        folder, _, file = name.rpartition("/")
        if folder == f"{FOLDER}/{subject}" and file.endswith(ENDING) and not file.startswith("."):
            suites.append(parse_suite(subject, file.removesuffix(ENDING), f"{home}/{name}", files.read(name)))
    return suites


def write_suite(files: Files, suite: Suite) -> str:
    """Create or replace the file of a suite; return its name in the home."""
    file = suite_file(suite.subject, suite.name)
    files.write(file, suite.content)
    return file


def delete_suite(files: Files, subject: str, name: str) -> None:
    """Delete the file of a suite; raises UsageError if there is none."""
    file = suite_file(subject, name)
    if not files.exists(file):
        raise UsageError(f"there is no suite {subject}/{name}", "see: pststream suite list")
    files.delete([file])


def suite_file(subject: str, name: str) -> str:
    """Return the name of a suite's file in the home."""
    return f"{FOLDER}/{subject}/{name}{ENDING}"


def default_suites() -> dict[str, bytes]:
    """Return the suites of a new home, by the names of their files: they hold for all rows that the project writes."""
    contents = {}
    for subject, listed in _DEFAULTS.items():
        suite = {"expectations": [{"type": kind, "kwargs": arguments} for kind, arguments in listed]}
        contents[suite_file(subject, DEFAULT_NAME)] = json.dumps(suite, indent=2).encode() + b"\n"
    return contents


def parse_suite(subject: str, name: str, path: str, content: bytes) -> Suite:
    """Check the content of a suite file and return the suite; raises SuiteError."""
    if not NAME.fullmatch(name):
        reason = "the name has other characters than letters, digits, - _ and ."
        raise SuiteError(path, "", reason, "rename the file; names have at most 100 characters")
    try:
        document = decode_json(content.decode("utf-8-sig"))
    except ValueError as error:
        raise SuiteError(path, "", f"is not JSON: {error}", "docs/input.md shows a suite") from None
    if not isinstance(document, dict) or not isinstance(document.get("expectations"), list):
        raise SuiteError(path, "", 'is not a suite: {"expectations": [...]}', "docs/input.md shows a suite")
    _refuse_unknown_keys(path, "", document, SUITE_KEYS)
    if document.get("suite_parameters"):
        raise SuiteError(path, "", "suite_parameters are not supported", "write the values into the expectations")
    if not document["expectations"]:
        raise SuiteError(path, "", "has no expectations", "add one, or remove the file")
    expectations = [_parse(subject, path, n, one) for n, one in enumerate(document["expectations"], start=1)]
    return Suite(subject, name, path, content, tuple(expectations))


def _parse(subject: str, path: str, ordinal: int, given: Any) -> ExpectationText:
    place = f"expectation {ordinal}"
    if not isinstance(given, dict) or not isinstance(given.get("type"), str):
        raise SuiteError(path, place, 'is not {"type": ..., "kwargs": {...}}', "docs/input.md shows a suite")
    kind, arguments = given["type"], given.get("kwargs", {})
    place = f"{place}, {kind}"
    _refuse_unknown_keys(path, place, given, EXPECTATION_KEYS)
    if kind not in EXPECTATIONS:
        raise SuiteError(path, place, "is unknown, or not one that a suite may have", "docs/input.md lists them")
    if not isinstance(arguments, dict):
        raise SuiteError(path, place, "kwargs is not an object", 'such as {"column": "text"}')
    for key in sorted(REFUSED & arguments.keys()):
        raise SuiteError(path, place, f"{key} is refused: it could run code or needs earlier runs", "leave it out")
    if _has_parameter(arguments):
        raise SuiteError(path, place, "$PARAMETER is not supported", "write the value itself")
    for key in EXPECTATION_KEYS & arguments.keys():
        raise SuiteError(path, place, f"{key} is not an argument", f"write {key} beside kwargs")
    description = given.get("description")
    one = ExpectationText(kind, arguments, description if isinstance(description, str) else None)
    for column in one.columns:
        if column not in SUBJECTS[subject].names:
            known = ", ".join(SUBJECTS[subject].names)
            raise SuiteError(path, place, f"{subject} has no column {column!r}", f"columns: {known}")
    return one


def _refuse_unknown_keys(path: str, place: str, given: dict[str, Any], known: set[str]) -> None:
    for key in sorted(given.keys() - known):
        raise SuiteError(path, place, f"unknown key {key!r}", "known keys: " + ", ".join(sorted(known)))


def _has_parameter(value: Any) -> bool:
    """Whether a value has an expression that the library would evaluate, at any depth."""
    if isinstance(value, dict):
        return "$PARAMETER" in value or any(map(_has_parameter, value.values()))
    return isinstance(value, list) and any(map(_has_parameter, value))
