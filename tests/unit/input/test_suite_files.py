"""A suite file is JSON in the form of Great Expectations; what could run code, or names no column, is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from pststream.base.errors import SuiteError, UsageError
from pststream.input.judged_rows import SUBJECTS
from pststream.input.suite_files import Suite, delete_suite, parse_suite, read_suites, write_suite
from pststream.storage.registry import files_at

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "text", "mostly": 0.95}}
REGEX = "expect_column_values_to_match_regex"


def parse(document: Any, subject: str = "landed_objects", name: str = "text") -> Suite:
    return parse_suite(subject, name, f"home/{name}.json", json.dumps(document).encode())


def of(expectation: Any) -> dict[str, Any]:
    return {"expectations": [expectation]}


def with_arguments(**arguments: Any) -> dict[str, Any]:
    return of({"type": REGEX, "kwargs": {"column": "text", "regex": "a", **arguments}})


def test_a_suite_as_great_expectations_writes_it() -> None:
    written = {
        "name": "of another name",
        "id": None,
        "meta": {"great_expectations_version": "1.24.0"},
        "notes": None,
        "expectations": [NOT_NULL | {"id": "1", "meta": {}, "severity": "critical", "description": "no blank texts"}],
    }
    suite = parse(written)
    assert (suite.name, suite.label, suite.columns) == ("text", "landed_objects/text", ["text"])
    (one,) = suite.expectations
    assert str(one) == "expect_column_values_to_not_be_null(column='text', mostly=0.95)"
    assert one.description == "no blank texts"


def test_columns_come_in_the_order_of_the_subject() -> None:
    unique = {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["ts", "object_id"]}}
    equal = {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "lon", "column_B": "lat"}}
    assert parse({"expectations": [equal, unique]}).columns == ["object_id", "ts", "lon", "lat"]


BAD = {
    "not an object": ([], "is not a suite"),
    "no expectations": ({"expectations": []}, "has no expectations"),
    "expectations of another type": ({"expectations": {}}, "is not a suite"),
    "unknown key": (of(NOT_NULL) | {"expectation": []}, "unknown key 'expectation'"),
    "suite parameters": (of(NOT_NULL) | {"suite_parameters": {"a": 1}}, "suite_parameters are not supported"),
    "not an expectation": (of("expect"), "expectation 1: is not"),
    "the form of older versions": (of({"expectation_type": NOT_NULL["type"], "kwargs": {}}), "expectation 1: is not"),
    "unknown expectation": (
        of({"type": "expect_the_best", "kwargs": {}}),
        "1, expect_the_best: is unknown",
    ),
    "SQL": (of({"type": "unexpected_rows_expectation", "kwargs": {}}), "is unknown, or not one that a suite may have"),
    "row counts": (of({"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}}), "is unknown, or not one"),
    "unknown key of an expectation": (of(NOT_NULL | {"kwarg": {}}), "unknown key 'kwarg'"),
    "arguments that are no object": (of({"type": REGEX, "kwargs": ["text"]}), "kwargs is not an object"),
    "unknown column": (with_arguments(column="texts"), "landed_objects has no column 'texts'"),
    "a column that is no name": (with_arguments(column={"a": 1}), "has no column {'a': 1}"),
    "code": (with_arguments(row_condition="@__import__('os').system('touch x')"), "row_condition is refused"),
    "a parser": (with_arguments(condition_parser="pandas"), "condition_parser is refused"),
    "an expression": (with_arguments(regex={"$PARAMETER": "now()"}), r"\$PARAMETER is not supported"),
    "a nested expression": (with_arguments(regex=[{"a": {"$PARAMETER": "1"}}]), r"\$PARAMETER is not supported"),
    "a key in the wrong place": (with_arguments(meta={}), "meta is not an argument"),
}


@pytest.mark.parametrize(("document", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_named_with_its_expectation_and_the_reason(document: Any, message: str) -> None:
    with pytest.raises(SuiteError, match=message) as caught:
        parse(document)
    assert str(caught.value).startswith("home/text.json: ")
    assert caught.value.exit_code == 2 and caught.value.hint


@pytest.mark.parametrize("content", [b"", b'{"expectations": [', b"\xff\xfe", b"[" * 100 + b"]" * 100])
def test_what_is_not_json_is_refused(content: bytes) -> None:
    with pytest.raises(SuiteError, match="home/text.json: is not JSON"):
        parse_suite("landed_objects", "text", "home/text.json", content)


@pytest.mark.parametrize("name", ["", "a b", "ä", "../text", ".text", "a" * 101])
def test_a_name_has_plain_characters(name: str) -> None:
    with pytest.raises(SuiteError, match="the name has other characters"):
        parse(of(NOT_NULL), name=name)


def test_suites_are_read_by_name_from_the_folder_of_their_subject(tmp_path: Path) -> None:
    files = files_at(str(tmp_path))
    assert [read_suites(files, "home", subject) for subject in SUBJECTS] == [[], [], []]
    for name in ("second", "first"):
        write_suite(files, parse(of(NOT_NULL), name=name))
    folder = tmp_path / "expectations" / "landed_objects"
    (folder / "old").mkdir()
    (folder / "old" / "gone.json").write_text("[]")
    (folder / "notes.txt").write_text("of no suite")
    (folder / ".first.json").write_text("an editor's copy")
    read = read_suites(files, "home", "landed_objects")
    assert [suite.name for suite in read] == ["first", "second"]
    assert read[0].path == "home/expectations/landed_objects/first.json"
    delete_suite(files, "landed_objects", "first")
    assert [suite.name for suite in read_suites(files, "home", "landed_objects")] == ["second"]
    with pytest.raises(UsageError, match="there is no suite landed_objects/first"):
        delete_suite(files, "landed_objects", "first")
    (folder / "broken.json").write_text("{")
    with pytest.raises(SuiteError, match="home/expectations/landed_objects/broken.json: is not JSON"):
        read_suites(files, "home", "landed_objects")
