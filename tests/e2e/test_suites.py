"""Suites of users: a landed file that does not meet them is quarantined, pairs that do not fail `check`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pststream.input.data_docs import read_page
from pststream.storage.registry import files_at
from tests import worlds
from tests.bucket_home import new_bucket_home, store_on_loopback, use
from tests.commands import Home, new_home, run_here
from tests.kill_and_rerun import table_of

pytestmark = [pytest.mark.e2e]

NOT_EMPTY = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "text", "mostly": 0.95}}
SHORT_IDS = {"type": "expect_column_value_lengths_to_be_between", "kwargs": {"column": "object_id", "max_value": 8}}
ASKED = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 5, 5]}


def rows_of(name: str, count: int = 100, empty: int = 0, bad: int = 0) -> list[dict[str, Any]]:
    """Rows of which the first ones have a bad longitude and no text, and the next ones an empty text."""
    texts = [""] * (bad + empty) + ["tea for two"] * (count - bad - empty)
    return [
        {"object_id": f"{name}-{n}", "ts": worlds.moment(n), "lon": 999 if n < bad else 1.0, "lat": 2.0, "text": text}
        for n, text in enumerate(texts)
    ]


def write_suite(folder: Path, *expectations: Any, name: str = "text") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"expectations": expectations}), "utf-8")
    return folder / f"{name}.json"


def landing(folder: Path) -> Path:
    (folder / "objects").mkdir(parents=True)
    (folder / "requests").mkdir()
    worlds.write_rows(folder / "requests" / "requests.jsonl", [ASKED | {"created_at": worlds.moment(-1)}])
    worlds.write_rows(folder / "objects" / "good.csv", rows_of("good", empty=4, bad=20))
    worlds.write_rows(folder / "objects" / "empty.csv", rows_of("empty", empty=6))
    return folder


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Any]:
    """A home with a suite for objects whose landing folder was run, and the document of that run."""
    folder = tmp_path_factory.mktemp("judged")
    home = new_home(folder / "home", planner="grid", workers=2, engine="local")
    write_suite(home.path / "expectations" / "landed_objects", NOT_EMPTY)
    return home, home.run("run", landing(folder / "landing"), "--strict", code=3)


@pytest.fixture
def home(judged: tuple[Home, Any], tmp_path: Path) -> Home:
    """A copy of that home, to change."""
    shutil.copytree(judged[0].path, tmp_path / "home")
    return Home(tmp_path / "home")


def test_a_file_that_a_suite_rejects_is_quarantined_with_the_reason(judged: tuple[Home, Any]) -> None:
    home, done = judged
    objects = done["ingest"]["objects"]
    assert (objects["files"], objects["accepted"], objects["rejected"]) == (1, 80, 20)
    ((hold,),) = [objects["quarantined"]]
    assert Path(hold["path"]).name == "empty.csv"
    reason = (
        "suite text: expect_column_values_to_not_be_null(column='text', mostly=0.95) is not met:"
        " 6 of 100 rows do not meet it"
    )
    assert hold["reasons"] == [reason]
    (page,) = objects["data_docs"]
    assert Path(page).is_file() and Path(page).is_relative_to(home.path / "data_docs")
    assert len(list(Path(page).parent.rglob("*.html"))) == 3, "the index, and a page for each file"
    assert done["ingest"]["requests"]["data_docs"] == []
    rows = table_of(home, "quality_results").to_pyarrow_table().to_pylist()
    of_suite = {Path(row["subject"]).name: row for row in rows if row["suite"] == "landed_objects/text"}
    assert {name: row["success"] for name, row in of_suite.items()} == {"good.csv": True, "empty.csv": False}
    assert of_suite["empty.csv"]["failed"] == [reason]
    assert of_suite["empty.csv"]["results"][0]["value"] == 6
    text = run_here("quarantine", "list", "--home", home.path).out
    assert "empty.csv" in text and "suite text" in text


def test_it_is_released_and_discarded_as_the_others(home: Home) -> None:
    done = home.run("quarantine", "release", "1")
    assert (done["files"], done["accepted"], done["data_docs"]) == (1, 100, [])
    assert home.run("quarantine", "list")["quarantine"] == []


def test_the_output_names_the_data_docs(home: Home, tmp_path: Path) -> None:
    file = worlds.write_rows(tmp_path / "none.csv", rows_of("none", 10, empty=10))
    out = run_here("ingest", "objects", file, "--home", home.path).out
    (line,) = [line.strip() for line in out.splitlines() if "Data Docs: " in line]
    assert Path(line.removeprefix("Data Docs: ")).is_file()
    nothing = worlds.write_rows(tmp_path / "bad.csv", rows_of("bad", 10, bad=10))
    done = home.run("ingest", "objects", nothing)
    assert (done["files"], done["rejected"], done["data_docs"]) == (1, 10, []), "no row to judge"


def test_a_random_part_of_a_large_file_is_judged(home: Home, tmp_path: Path) -> None:
    home.set(suite_rows=200)
    large = worlds.write_rows(tmp_path / "large.csv", rows_of("large", 5_000, empty=1_000, bad=100))
    (hold,) = home.run("ingest", "objects", large)["quarantined"]
    unmet = int(hold["reasons"][0].partition("is not met: ")[2].split()[0])
    assert " of 200 rows" in hold["reasons"][0] and 5 < unmet < 80, "41 are expected, give or take 6"


BAD_SUITES = {
    "bad JSON": ("{", "landed_requests/bad.json: is not JSON"),
    "an unknown expectation": (
        json.dumps({"expectations": [{"type": "expect_the_best", "kwargs": {}}]}),
        "landed_requests/bad.json: expectation 1, expect_the_best: is unknown",
    ),
    "an unknown column": (json.dumps({"expectations": [NOT_EMPTY]}), "landed_requests has no column 'text'"),
    "a bad argument": (
        json.dumps({"expectations": [{"type": NOT_EMPTY["type"], "kwargs": {"column": "op", "mostly": 95}}]}),
        "bad.json: expectation 1, expect_column_values_to_not_be_null: mostly",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD_SUITES.values(), ids=BAD_SUITES.keys())
def test_a_bad_suite_stops_before_any_work(home: Home, tmp_path: Path, content: str, message: str) -> None:
    (home.path / "expectations" / "landed_requests").mkdir()
    (home.path / "expectations" / "landed_requests" / "bad.json").write_text(content, "utf-8")
    new = tmp_path / "new"
    (new / "objects").mkdir(parents=True)
    file = worlds.write_rows(new / "objects" / "sound.csv", rows_of("sound"))
    before = home.run("status")
    done = run_here("run", new, "--home", home.path, "--json")
    assert (done.code, done.json["kind"]) == (2, "SuiteError") and message in done.json["error"]
    assert message in run_here("ingest", "requests", file, "--home", home.path).err
    after = home.run("status")
    for name in ("quarantined_files", "pending_objects", "rejects_by_reason"):
        assert after.get(name) == before.get(name)
    assert home.run("ingest", "objects", file)["files"] == 1, "requests are not ingested here"


def test_suites_are_added_listed_validated_and_removed(home: Home, tmp_path: Path) -> None:
    ids = write_suite(tmp_path / "mine", SHORT_IDS, name="ids")
    assert run_here("suite", "validate", "pairs", ids, "--home", home.path).out == "pairs/ids: valid\n"
    (added,) = home.run("suite", "add", "pairs", ids)["suites"]
    assert added["path"] == f"{home.path}/expectations/pairs/ids.json"
    assert [(one["subject"], one["name"]) for one in home.run("suite", "list")["suites"]] == [
        ("landed_objects", "text"), ("pairs", "ids"),
    ]  # fmt: skip
    assert len(home.run("suite", "validate")["suites"]) == 2
    write_suite(tmp_path / "mine", SHORT_IDS | {"kwargs": {"column": "object_id"}}, name="ids")
    assert "max_value" in run_here("suite", "add", "pairs", ids, "--home", home.path).err
    assert home.run("suite", "remove", "pairs", "ids")["removed"] == "pairs/ids"
    assert [one["name"] for one in home.run("suite", "list", "pairs")["suites"]] == []
    for words in (["add"], ["add", "pairs"], ["add", "pairs", "none.json"], ["add", "pairs", str(tmp_path)]):
        home.run("suite", *words, code=2)
    for words in (["remove", "pairs", "ids"], ["remove", "pairs"], ["validate", "rows"]):
        home.run("suite", *words, code=2)


def test_pairs_that_do_not_meet_a_suite_fail_check(home: Home, tmp_path: Path) -> None:
    assert home.run("check")["data_docs"] == []
    write_suite(home.path / "expectations" / "pairs", SHORT_IDS, name="ids")
    passed = home.run("check")
    (check,) = [one for one in passed["checks"] if one["check"] == "pairs"]
    assert check["success"] and check["figures"] == {"pairs": 76, "judged": 76}
    assert Path(passed["data_docs"][0]).is_file()
    home.ingest("objects", [worlds.write_rows(tmp_path / "long.csv", rows_of("a-long-name", 30))])
    home.match()
    home.set(suite_rows=20)
    for _ in range(2):  # until a batch passes, its pairs are judged again
        failed = home.run("check", code=1)
        (check,) = [one for one in failed["checks"] if one["check"] == "pairs"]
        assert check["figures"] == {"pairs": 30, "judged": 20} and "20 of 20 rows" in check["failed"][0]
    assert Path(failed["data_docs"][0]).is_file()
    everything = run_here("check", "--all", "--home", home.path)
    assert everything.code == 1 and "Data Docs: " in everything.out and "FAIL  pairs" in everything.out
    write_suite(home.path / "expectations" / "pairs", {"type": "expect_the_best", "kwargs": {}}, name="ids")
    assert run_here("check", "--home", home.path, "--json").json["kind"] == "SuiteError"


HIDDEN = """
import sys
from pststream.base.optional_packages import hidden_packages
from pststream.cli.main import main
with hidden_packages("great_expectations"):
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def fresh(tmp_path: Path) -> Home:
    """A home as `init` makes it, with rows of both kinds and matches."""
    home = Home(tmp_path / "home")
    home.run("init")
    landed = landing(tmp_path / "landing")
    home.run("run", landed)
    return home


def test_a_new_home_has_suites_for_stored_rows_and_pairs(fresh: Home) -> None:
    passed = fresh.run("check")
    figures = {one["check"]: one["figures"] for one in passed["checks"]}
    assert figures["objects"] == {"objects": 180, "judged": 180}
    assert figures["requests"] == {"requests": 1, "judged": 1} and figures["pairs"]["judged"] > 0
    assert len(passed["data_docs"]) == 3 and all(Path(page).is_file() for page in passed["data_docs"])
    write_suite(fresh.path / "expectations" / "objects", SHORT_IDS | {"kwargs": {"column": "text", "max_value": 2}})
    failed = fresh.run("check", code=1)
    assert [one["check"] for one in failed["checks"] if not one["success"]] == ["objects"]


def test_an_init_that_was_killed_before_its_end_leaves_no_home_without_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pststream.state.home.Home.write_mark", killed)
        assert run_here("init", "--home", tmp_path / "home").code != 0
    home = Home(tmp_path / "home")
    home.run("init")
    assert [one["subject"] for one in home.run("suite", "list")["suites"]] == ["objects", "requests", "pairs"]


def test_without_the_library_the_check_says_so_and_passes(fresh: Home) -> None:
    command = [sys.executable, "-c", HIDDEN, "check", "--home", str(fresh.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "suites are not run: great_expectations is not installed" in done.stderr
    assert "pip install 'pststream[quality]'" in done.stderr and "pairs" not in done.stdout


def test_a_backup_has_the_suites(home: Home, tmp_path: Path) -> None:
    home.run("backup", "--out", tmp_path / "copy")
    copy = Home(tmp_path / "copy")
    assert [one["name"] for one in copy.run("suite", "list")["suites"]] == ["text"]


WITHOUT = """
import sys
from pststream.cli.main import main
home, folder = sys.argv[1:]
assert main(["run", folder, "--home", home]) == 0
assert main(["check", "--home", home]) == 0
assert "great_expectations" not in sys.modules
"""


def test_without_suites_great_expectations_is_not_loaded(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", planner="grid", workers=2, engine="local")
    folder = landing(tmp_path / "landing")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(home.path), str(folder)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_home_in_a_bucket_has_suites_and_data_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_on_loopback() as store:
        address = use(store.url, monkeypatch)
        home = new_bucket_home(address, tmp_path, engine="local")
        home.run("suite", "add", "landed_objects", write_suite(tmp_path, NOT_EMPTY))
        assert home.run("suite", "list")["suites"][0]["path"] == f"{address}/expectations/landed_objects/text.json"
        done = home.run("ingest", "objects", worlds.write_rows(tmp_path / "empty.csv", rows_of("empty", 10, empty=10)))
        assert len(done["quarantined"]) == 1
        (page,) = done["data_docs"]
        run, name = page.removeprefix(f"{address}/data_docs/").split("/")
        assert "suite text" in (read_page(files_at(address), run, name) or "")
        assert home.run("quarantine", "release", "1")["accepted"] == 10
