"""Suite files are JSON that runs no code; Great Expectations judges by them, and pages show the results."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pststream.base.errors import SuiteError, UsageError
from pststream.base.optional_packages import MissingExtra
from pststream.input.data_docs import FOLDER, KEPT, POLICY, delete_old_docs, make_inert, read_page
from pststream.input.run_suites import SuiteResult, check_suite, judge_frame, judge_frames, load_suites
from pststream.input.suite_files import (
    EXPECTATIONS,
    SUBJECTS,
    Suite,
    delete_suite,
    draw_places,
    make_example,
    make_frame,
    parse_suite,
    read_suites,
    write_suite,
)
from pststream.storage.registry import files_at

TEXT, LON = {"column": "text"}, {"column": "lon"}
BETWEEN = {"min_value": -180, "max_value": 180}
PAIR = {"column_A": "lon", "column_B": "lat"}
COLUMNS = {"column_list": ["lon", "lat"]}
VALUES = {"value_set": ["one", "two"]}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "expect_column_distinct_values_to_be_in_set": TEXT | VALUES,
    "expect_column_distinct_values_to_contain_set": TEXT | VALUES,
    "expect_column_distinct_values_to_equal_set": TEXT | VALUES,
    "expect_column_max_to_be_between": {"column": "ts", "min_value": "2026-01-01T00:00:00Z"},
    "expect_column_mean_to_be_between": LON | BETWEEN,
    "expect_column_median_to_be_between": LON | BETWEEN,
    "expect_column_min_to_be_between": LON | BETWEEN,
    "expect_column_most_common_value_to_be_in_set": TEXT | VALUES | {"ties_okay": True},
    "expect_column_pair_values_a_to_be_greater_than_b": PAIR | {"or_equal": True},
    "expect_column_pair_values_to_be_equal": PAIR,
    "expect_column_pair_values_to_be_in_set": PAIR | {"value_pairs_set": [[1.0, 1.0], [2.5, 2.5]]},
    "expect_column_proportion_of_non_null_values_to_be_between": TEXT | {"min_value": 0.5},
    "expect_column_proportion_of_unique_values_to_be_between": TEXT | {"min_value": 0.5},
    "expect_column_stdev_to_be_between": LON | {"max_value": 100},
    "expect_column_sum_to_be_between": LON | BETWEEN,
    "expect_column_unique_value_count_to_be_between": TEXT | {"min_value": 2},
    "expect_column_value_lengths_to_be_between": TEXT | {"max_value": 100},
    "expect_column_value_lengths_to_equal": TEXT | {"value": 3},
    "expect_column_value_z_scores_to_be_less_than": LON | {"threshold": 3, "double_sided": True},
    "expect_column_values_to_be_between": {"column": "ts", "max_value": "2199-01-01T00:00:00Z"},
    "expect_column_values_to_be_decreasing": LON | {"mostly": 0},
    "expect_column_values_to_be_in_set": TEXT | VALUES,
    "expect_column_values_to_be_increasing": LON,
    "expect_column_values_to_be_json_parseable": TEXT | {"mostly": 0},
    "expect_column_values_to_be_null": TEXT | {"mostly": 0},
    "expect_column_values_to_be_unique": TEXT,
    "expect_column_values_to_match_regex": TEXT | {"regex": "^[a-z]+$"},
    "expect_column_values_to_match_regex_list": TEXT | {"regex_list": ["one", "two"], "match_on": "any"},
    "expect_column_values_to_match_strftime_format": TEXT | {"strftime_format": "%Y", "mostly": 0},
    "expect_column_values_to_not_be_in_set": TEXT | {"value_set": ["three"]},
    "expect_column_values_to_not_be_null": TEXT | {"mostly": 0.5},
    "expect_column_values_to_not_match_regex": TEXT | {"regex": "three"},
    "expect_column_values_to_not_match_regex_list": TEXT | {"regex_list": ["three"]},
    "expect_compound_columns_to_be_unique": COLUMNS,
    "expect_multicolumn_sum_to_equal": COLUMNS | {"sum_total": 0, "mostly": 0},
    "expect_select_column_values_to_be_unique_within_record": COLUMNS | {"mostly": 0},
}


def suite_of(*expectations: tuple[str, dict[str, Any]], name: str = "text", subject: str = "landed_objects") -> Suite:
    document = {"expectations": [{"type": kind, "kwargs": arguments} for kind, arguments in expectations]}
    return parse_suite(subject, name, f"home/{name}.json", json.dumps(document).encode())


def texts(*values: str | None) -> Any:
    return make_frame(pa.table({"text": pa.array(values, pa.string())}))


def judge_text(suite: Suite, *values: str | None) -> SuiteResult:
    (result,) = judge_frame([suite], texts(*values), "texts")
    return result


NOT_NULL = ("expect_column_values_to_not_be_null", TEXT | {"mostly": 0.95})


def test_every_expectation_that_a_suite_may_have_is_computed() -> None:
    assert ARGUMENTS.keys() == EXPECTATIONS
    suite = suite_of(*ARGUMENTS.items())
    check_suite(suite)
    (result,) = judge_frame([suite], make_example("landed_objects"), "example")
    assert [one.name for one in result.results] == [str(one) for one in suite.expectations]
    assert [one.sentence for one in result.results if not one.success] == []


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_column_can_be_judged(subject: str) -> None:
    not_null = [("expect_column_values_to_not_be_null", {"column": name}) for name in SUBJECTS[subject].names]
    check_suite(suite_of(*not_null, subject=subject))


def test_a_share_of_the_rows_may_miss_an_expectation() -> None:
    suite = suite_of(NOT_NULL)
    assert judge_text(suite, *["tea"] * 19, " ").success
    failed = judge_text(suite, *["tea"] * 18, "", None)
    assert failed.reasons == [
        "suite text: expect_column_values_to_not_be_null(column='text', mostly=0.95) is not met:"
        " 2 of 20 rows do not meet it"
    ]
    assert failed.rows[0]["value"] == 2


def test_a_reason_has_examples_or_the_value_of_the_column() -> None:
    regex = ("expect_column_values_to_match_regex", TEXT | {"regex": "^[a-z]+$"})
    count = ("expect_column_unique_value_count_to_be_between", TEXT | {"min_value": 9})
    failed = judge_text(suite_of(regex, count, name="both"), "tea", "5", "5", "6" * 99)
    assert [reason.partition("is not met: ")[2] for reason in failed.reasons] == [
        f"3 of 4 rows do not meet it, such as 5, {'6' * 60}…", "the value is 3",
    ]  # fmt: skip


def test_the_same_expectation_twice_has_two_results() -> None:
    assert len(judge_text(suite_of(NOT_NULL, NOT_NULL), None).reasons) == 2


def test_what_cannot_be_computed_on_the_rows_is_not_met() -> None:
    mean = ("expect_column_mean_to_be_between", LON | BETWEEN)
    frame = make_frame(pa.table({"lon": pa.array([None, None], pa.float64())}))
    (result,) = judge_frame([suite_of(mean)], frame, "nothing")
    assert not result.success and result.rows[0]["value"] is None


REFUSED = {
    "a missing argument": (("expect_column_value_lengths_to_equal", TEXT), "value; field required"),
    "an unknown argument": (("expect_column_values_to_be_unique", TEXT | {"most": 1}), "most; extra fields"),
    "a value of another type": (("expect_column_values_to_be_null", TEXT | {"mostly": "all"}), "mostly"),
    "a share above one": (("expect_column_values_to_be_null", TEXT | {"mostly": 95}), "mostly"),
    "no column": (("expect_column_values_to_be_null", {}), "column; field required"),
    "a text compared with a number": (("expect_column_values_to_be_between", TEXT | BETWEEN), "same type"),
    "a bad regular expression": (("expect_column_values_to_match_regex", TEXT | {"regex": "("}), "unterminated"),
    "a mean of texts": (("expect_column_mean_to_be_between", TEXT | BETWEEN), "expect_column_mean_to_be_between"),
}


@pytest.mark.parametrize(("expectation", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_suite_that_cannot_be_computed_is_refused_before_any_work(expectation: Any, reason: str) -> None:
    with pytest.raises(SuiteError) as caught:
        check_suite(suite_of(NOT_NULL, expectation))
    assert f"home/text.json: expectation 2, {expectation[0]}" in str(caught.value)
    assert reason in str(caught.value)


def test_without_the_library_a_suite_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_at(str(tmp_path))
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    assert load_suites(files, "home", "landed_objects") == []
    files.write("expectations/landed_objects/new.json", suite_of(NOT_NULL).content)
    with pytest.raises(MissingExtra, match=r"(?s)great_expectations is not installed.*'pststream\[quality\]'"):
        load_suites(files, "home", "landed_objects")


HOSTILE = "</td><script src='https://example.com/x.js'></script><img src=x onerror=alert(1)><b>"


def test_data_docs_open_and_run_no_script(tmp_path: Path) -> None:
    suites = [suite_of(("expect_column_values_to_be_in_set", TEXT | VALUES), name=name) for name in ("first", "second")]
    frames = [("good.csv", texts("one", "two")), ("<b>bad</b>.csv", texts("one", HOSTILE))]
    results, address = judge_frames(files_at(str(tmp_path)), str(tmp_path), suites, frames)
    assert [[one.success for one in of_frame] for of_frame in results] == [[True, True], [False, False]]
    index = Path(address)
    assert index.parent.name.endswith("-landed_objects-failed") and index.name == "index.html"
    links = re.findall(r'href="([^"]*)"', index.read_text("utf-8"))
    assert len(links) == 4, "a page for each file and suite"
    for page in (index, *(index.parent / link for link in links)):
        text = page.read_text("utf-8")
        assert POLICY in text and text.index(POLICY) < text.index("<body")
        assert not re.search("<script|<link|<img src=x|<b>", text, re.IGNORECASE), page
        assert not re.search(r'(href|src)="https?:', text), page
    assert "1 unexpected values found" in (index.parent / links[-1]).read_text("utf-8")
    assert {path.suffix for path in (tmp_path / FOLDER).rglob("*") if path.is_file()} == {".html"}


def test_a_page_is_bounded_and_shows_no_markup_of_the_suite(tmp_path: Path) -> None:
    common = {"type": "expect_column_most_common_value_to_be_in_set", "kwargs": TEXT | {"value_set": ["x"]}}
    null = {"type": "expect_column_values_to_be_null", "kwargs": TEXT, "description": HOSTILE + "described"}
    content = json.dumps({"expectations": [common, null]}).encode()
    suite = parse_suite("landed_objects", "a.b", "home/a.b.json", content)
    frame = texts(*(f"value-{number:02}-" + "y" * 5_000 for number in range(50)))
    _, address = judge_frames(files_at(str(tmp_path)), str(tmp_path), [suite], [("two..dots.csv", frame)])
    (link,) = re.findall(r'href="([^"]*)"', Path(address).read_text("utf-8"))
    run = Path(address).parent
    page = read_page(files_at(str(tmp_path)), run.name, link)
    assert page is not None and "described" in page and "<b>" not in page
    assert len(set(re.findall(r"value-\d\d-", page))) == 20 and "y" * 1_001 not in page


def test_a_reason_names_distinct_values_that_are_too_many_or_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    suite = suite_of(("expect_column_distinct_values_to_equal_set", TEXT | VALUES))
    ([[result]], _) = judge_frames(files_at(str(tmp_path)), str(tmp_path), [suite], [("a.csv", texts("one", "six"))])
    assert result.reasons[0].endswith("is not met: 1 value not in the set, such as six; 1 value missing, such as two")
    assert "Traceback" not in capfd.readouterr().err, "the library renders the page"


def test_scripts_and_external_links_are_removed_wherever_they_are() -> None:
    page = "<html><head><link href='https://a'><SCRIPT>1 < 2\n</SCRIPT ></head><body><script src=b></script>c</body>"
    assert re.sub(r"(?s)<head>.*</style>", "<head>", make_inert(page)) == "<html><head></head><body>c</body>"


def test_places_are_drawn_without_repeats_the_same_each_time() -> None:
    assert draw_places(10, 10, "") is None and draw_places(0, 1, "") is None
    for count, limit in ((11, 10), (1_000, 1), (1_000_000, 500)):
        places = draw_places(count, limit, "seed")
        assert places is not None and len(places) == limit
        assert (np.diff(places) > 0).all() and places[0] >= 0 and places[-1] < count
        assert np.array_equal(places, draw_places(count, limit, "seed"))
        assert not np.array_equal(places, draw_places(count, limit, "other"))
    many = draw_places(1_000_000, 10_000, "seed")
    assert many is not None and 450_000 < many.mean() < 550_000


def test_blank_texts_are_null_and_other_values_stay() -> None:
    rows = {"text": pa.array(["a", "", " \t\u3000", None, " b "]), "lon": [1.0, None, 2.0, 3.0, 4.0], "row": range(5)}
    frame = make_frame(pa.table(rows))
    assert frame["text"].isna().tolist() == [False, True, True, True, False]
    assert frame["text"].tolist()[4] == " b "
    assert frame["lon"].isna().tolist() == [False, True, False, False, False]
    assert frame["row"].dtype == "int64" and isinstance(frame, pd.DataFrame)


RUN = "20260101T000000000000-landed_objects-failed"


def run_name(number: int, outcome: str) -> str:
    return f"20260101T{number:012}-pairs-{outcome}"


def test_the_newest_runs_of_each_outcome_are_kept(tmp_path: Path) -> None:
    files = files_at(str(tmp_path))
    assert delete_old_docs(files) == 0
    runs = {outcome: [run_name(n, outcome) for n in range(kept + 3)] for outcome, kept in KEPT.items()}
    for run in (run for of_outcome in runs.values() for run in of_outcome):
        files.write(f"data_docs/{run}/validations/text/one.html", b"one")
        files.write(f"data_docs/{run}/index.html", b"index")
    assert delete_old_docs(files) == 6
    left = {path.name for path in (tmp_path / "data_docs").iterdir()}
    assert left == {run for of_outcome in runs.values() for run in of_outcome[3:]}
    assert delete_old_docs(files) == 0


@pytest.mark.parametrize(
    ("run", "page", "content"),
    [
        (RUN, "index.html", "index"),
        (RUN, "validations/text/1-a.csv/one.html", "one"),
        (RUN, "other.html", None),
        (RUN, "../../home.json", None),
        (RUN, "../../secret.html", None),
        (RUN, "/secret.html", None),
        ("..", "secret.html", None),
        (RUN, "notes.txt", None),
        ("20260101", "index.html", None),
    ],
)
def test_a_page_is_read_by_its_name(tmp_path: Path, run: str, page: str, content: str | None) -> None:
    files = files_at(str(tmp_path))
    for name in (f"data_docs/{RUN}/index.html", f"data_docs/{RUN}/validations/text/1-a.csv/one.html", "secret.html"):
        files.write(name, Path(name).stem.encode())
    for name in ("home.json", f"data_docs/{RUN}/notes.txt"):
        files.write(name, b"secret")
    assert read_page(files, run, page) == content


NOT_NULL_JSON = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "text", "mostly": 0.95}}

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
        "expectations": [
            NOT_NULL_JSON | {"id": "1", "meta": {}, "severity": "critical", "description": "no blank texts"}
        ],
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
    "unknown key": (of(NOT_NULL_JSON) | {"expectation": []}, "unknown key 'expectation'"),
    "suite parameters": (of(NOT_NULL_JSON) | {"suite_parameters": {"a": 1}}, "suite_parameters are not supported"),
    "not an expectation": (of("expect"), "expectation 1: is not"),
    "the form of older versions": (
        of({"expectation_type": NOT_NULL_JSON["type"], "kwargs": {}}),
        "expectation 1: is not",
    ),
    "unknown expectation": (
        of({"type": "expect_the_best", "kwargs": {}}),
        "1, expect_the_best: is unknown",
    ),
    "SQL": (of({"type": "unexpected_rows_expectation", "kwargs": {}}), "is unknown, or not one that a suite may have"),
    "row counts": (of({"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}}), "is unknown, or not one"),
    "unknown key of an expectation": (of(NOT_NULL_JSON | {"kwarg": {}}), "unknown key 'kwarg'"),
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
        parse(of(NOT_NULL_JSON), name=name)


def test_suites_are_read_by_name_from_the_folder_of_their_subject(tmp_path: Path) -> None:
    files = files_at(str(tmp_path))
    assert not any(read_suites(files, "home", subject) for subject in SUBJECTS)
    for name in ("second", "first"):
        write_suite(files, parse(of(NOT_NULL_JSON), name=name))
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
