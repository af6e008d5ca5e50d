"""Files that land: which are read again, which wait, and that none keeps another one out."""

import gzip
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pststream
from tests import worlds
from tests.commands import Home, new_home
from tests.kill_and_rerun import table_of

pytestmark = [pytest.mark.e2e]

HEADER = "object_id,ts,lon,lat,text\n"
ASKED = '{{"op": "insert", "subscription_id": "{}", "keywords": "tea", "bbox": [0, 0, 70, 70]{}}}\n'


def row(name: str, minute: int = 0, lat: str = "2") -> str:
    return f"{name},2026-03-01T00:{minute:02}:00Z,1,{lat},tea\n"


def land(landing: Path, name: str, content: str) -> Path:
    path = landing / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    return path


def home_at(path: Path, **settings: Any) -> Home:
    return new_home(path, engine="local", workers=2, planner="grid", **settings)


def run(home: Home, landing: Path, kind: str = "objects") -> Any:
    return home.run("run", landing)["ingest"].get(kind)


def stored(home: Home) -> list[str]:
    return sorted(table_of(home, "objects").to_pyarrow_table().column("object_id").to_pylist())


# The identity of a file


def test_bytes_that_landed_first_under_another_name_silence_no_file(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home")
    content = HEADER + row("a")
    strange = [land(landing, f"objects/stranger/x.{ending}", content) for ending in ("parquet", "jsonl")]
    first = run(home, landing)
    assert (len(first["quarantined"]), first["accepted"], first["rejected"]) == (1, 0, 2)
    land(landing, "objects/a.csv", content)
    assert run(home, landing)["accepted"] == 1 and stored(home) == ["a"]
    land(landing, "objects/b.csv", content)
    land(landing, "objects/other/a.csv", content)
    for path in strange:
        path.unlink()
    again = run(home, landing)
    assert (again["files"], again["files_skipped"], again["rejects_by_reason"]) == (1, 2, {"duplicate": 1})
    assert again["repeated"] == [{"path": str(landing / "objects/b.csv"), "read_as": str(landing / "objects/a.csv")}]


def test_a_file_that_is_quarantined_for_its_senders_folder_is_judged_again_in_another(tmp_path: Path) -> None:
    landing, home = (
        tmp_path / "landing",
        home_at(tmp_path / "home", gate_min_rows=1, gate_history=2, gate_volume_factor=2.0),
    )
    for n in range(2):
        land(landing, f"objects/small/{n}.csv", HEADER + row(f"s{n}"))
        run(home, landing)
    large = HEADER + "".join(row(f"r{n}") for n in range(20))
    land(landing, "objects/small/large.csv", large)
    assert len(run(home, landing)["quarantined"]) == 1, "its usual volume is one row"
    land(landing, "objects/own/large.csv", large)
    assert run(home, landing)["accepted"] == 20


def test_a_changed_setting_reads_no_landed_file_again_but_other_options_of_a_command_do(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home")
    land(landing, "objects/a.csv", HEADER + row("a"))
    assert run(home, landing)["accepted"] == 1
    home.set(timezone="Europe/Istanbul")
    assert run(home, landing) is None or run(home, landing)["files"] == 0
    other = land(tmp_path, "other.csv", "key,ts,lon,lat,text\n" + row("b"))
    assert home.ingest("objects", [other], "--column", "object_id=key", "--column", "lon=text")["accepted"] == 0
    assert home.ingest("objects", [other], "--column", "object_id=key")["accepted"] == 1
    assert home.ingest("objects", [other], "--column", "object_id=key")["files_skipped"] == 1


def test_a_named_file_of_which_nothing_is_left_is_read_again(tmp_path: Path) -> None:
    """A file that was withdrawn, or of which no row was accepted; `run` reads neither again, `--again` reads any."""
    home, landing = home_at(tmp_path / "home"), tmp_path / "landing"
    good = land(landing, "objects/good.csv", HEADER + row("a") + row("b"))
    bad = land(tmp_path, "bad.csv", HEADER + row("c", lat="x"))
    assert home.ingest("objects", [good])["accepted"] == 2
    assert home.ingest("objects", [good])["files_skipped"] == 1
    for _ in range(2):
        assert home.ingest("objects", [bad])["rejected"] == 1
    home.run("withdraw", "--object-id", "a")
    assert home.ingest("objects", [good])["files_skipped"] == 1
    home.run("withdraw", "--object-id", "b")
    assert run(home, landing)["files_skipped"] == 1
    assert home.ingest("objects", [good])["accepted"] == 2
    again = home.ingest("objects", [good], "--again")
    assert (again["files_skipped"], again["rejects_by_reason"]) == (0, {"duplicate": 2})


def test_a_file_with_more_rejected_than_accepted_rows_is_explained(tmp_path: Path) -> None:
    """`ingest` ends with 3 and says what decided; `run` says the same and succeeds."""
    home, landing = home_at(tmp_path / "home", lateness_seconds=60), tmp_path / "landing"
    home.ingest("objects", [land(tmp_path, "new.csv", HEADER + row("a", 59))])
    content = HEADER + row("b", 59) + "".join(row(f"late{n}", n) for n in range(5))
    ingested = home.ingest("objects", [land(tmp_path, "old.csv", content)])
    landed = run(home, land(landing, "objects/old.csv", content + row("c", 59)).parents[1])
    for document, counts in ((ingested, (1, 5)), (landed, (1, 6))):
        (file,) = document["mostly_rejected"]
        assert (file["accepted"], file["rejected"]) == counts and file["reasons"]["late"] == 5
        assert (file["watermark"], file["lateness_seconds"]) == ("2026-03-01T00:59:00Z", 60)
        assert len(file["examples"]) == 3
    assert {row["reason"] for row in ingested["mostly_rejected"][0]["examples"]} == {"late"}


def test_keywords_that_may_mean_something_else_are_named_once_a_file(tmp_path: Path) -> None:
    home, landing = home_at(tmp_path / "home"), tmp_path / "landing"
    texts = ("tea", "coffee or tea", "C++", "milk and tea", "C#")
    lines = "".join(ASKED.replace("tea", text, 1).format(f"s{n}", "") for n, text in enumerate(texts))
    assert run(home, land(landing, "requests/r.jsonl", lines).parents[1], "requests")["remarks"] == [
        {"path": str(landing / "requests/r.jsonl"), "row": row, "keywords": texts[row - 1], "remark": remark}
        for row, remark in (
            (2, "or in small letters is a word, and no operator"),
            (3, "C++ is found as c: signs are no part of words"),
        )
    ]


def test_rows_without_an_id_have_others_in_a_file_of_the_same_name(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    for day in (1, 2):
        path = land(tmp_path, "daily.csv", f"ts,lon,lat\n2026-03-0{day}T00:00:00Z,1,2\n")
        options = ("--column", "object_id=@row", "--constant", "text=")
        assert home.ingest("objects", [path], *options)["accepted"] == 1
    assert len(set(stored(home))) == 2


SOURCES = """
[sources.crimes]
files = "crimes/"
columns = { object_id = "@row", ts = "time", text = "offense+location", lon = "x", lat = "y" }
timezone = "America/Chicago"

[sources.quakes]
files = "*/quakes-*.jsonl"
columns = { object_id = "id", text = "place" }
constants = { lat = "7" }
time_unit = "s"
"""


def test_landed_files_are_read_as_their_source_says(tmp_path: Path) -> None:
    home, landing = home_at(tmp_path / "home"), tmp_path / "landing"
    (home.path / "pststream.toml").open("a").write(SOURCES)
    crimes = "time,offense,location,x,y\n2026-03-01 09:00:00,theft,parking lot,1,2\n"
    land(landing, "objects/crimes/2026/daily.csv", crimes)
    land(landing, "objects/usgs/quakes-1.jsonl", '{"id": "q", "ts": 1772323200, "lon": 3, "place": "at sea"}\n')
    land(landing, "objects/usgs/other.csv", HEADER + row("o"))
    ingested = run(home, landing)
    assert (ingested["accepted"], ingested["rejected"]) == (3, 0)
    rows = table_of(home, "objects").to_pyarrow_table().to_pylist()
    seen = {row["text"]: (row["ts"].isoformat(), row["lon"], row["lat"]) for row in rows}
    assert seen == {
        "theft parking lot": ("2026-03-01T15:00:00+00:00", 1, 2),
        "at sea": ("2026-03-01T00:00:00+00:00", 3, 7),
        "tea": ("2026-03-01T00:00:00+00:00", 1, 2),
    }
    assert run(home, landing)["files"] == 0
    named = land(tmp_path, "tomorrow.csv", crimes.replace("2026-03-01", "2026-03-02"))
    assert home.ingest("objects", [named], "--source", "crimes")["accepted"] == 1
    assert (
        "sources in the settings: crimes, quakes"
        in home.run("ingest", "objects", named, "--source", "x", code=2)["error"]
    )
    assert "--column does not apply" in home.run("run", landing, "--column", "text=a", code=2)["error"]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("[sources.a]\ncolumns = { ts = 'time' }", "sources.a.files"),
        ("[sources.a]\nfiles = 'x'\ncolumn = 'y'", "sources.a.column"),
        ("[sources.a]\nfiles = 'x'\ncolumns = 'y'", "sources.a.columns"),
        ("[sources.a]\nfiles = 'x'\ncolumns = { colour = 'y' }", "sources.a"),
        ("[sources.a]\nfiles = 'x'\nconstants = { object_id = 'y' }", "sources.a"),
        ("[sources.a]\nfiles = 'x'\ntimezone = 'Mars/Olympus'", "sources.a"),
        ("[sources.a]\nfiles = 'x'\ntime_unit = 'h'", "sources.a"),
        ("sources = 3", "sources"),
    ],
)
def test_a_source_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, label: str) -> None:
    home, landing = home_at(tmp_path / "home"), tmp_path / "landing"
    land(landing, "objects/a.csv", HEADER + row("a"))
    (home.path / "pststream.toml").write_text(text)
    assert label in home.run("run", landing, code=2)["error"]


def test_numbers_are_seconds_if_the_command_says_so(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home")
    content = HEADER + "a,1772323200,1,2,tea\nb,1772323200.25,1,2,tea\n"
    file = land(tmp_path, "objects.csv", content)
    assert home.ingest("objects", [file])["rejects_by_reason"] == {"ambiguous_time": 2}
    assert home.ingest("objects", [file], "--time-unit", "s")["accepted"] == 2
    moments = table_of(home, "objects").to_pyarrow_table().column("ts").to_pylist()
    assert [moment.timestamp() for moment in moments] == [1772323200, 1772323200.25]
    land(landing, "objects/c.csv", content.replace("a,", "c,").replace("b,", "d,"))
    land(landing, "requests/r.jsonl", ASKED.format("r", ', "created_at": 1772323200.25, "expires_at": "1772323201"'))
    home.run("run", landing, "--time-unit", "s")
    assert [pair[0] for pair in home.exported()] == ["b", "d"]


def test_requests_without_a_time_count_at_each_path(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home")
    leave = '{"op": "delete", "subscription_id": "s"}\n'
    land(landing, "requests/1.jsonl", ASKED.format("s", ""))
    dated = ASKED.format("d", ', "created_at": "2026-03-01T00:00:00Z"')
    land(landing, "requests/3.jsonl", dated)
    assert run(home, landing, "requests")["accepted"] == 2
    land(landing, "requests/2.jsonl", leave)
    assert run(home, landing, "requests")["accepted"] == 1
    land(landing, "requests/4.jsonl", ASKED.format("s", ""))
    assert run(home, landing, "requests")["accepted"] == 1
    land(landing, "requests/5.jsonl", leave)
    land(landing, "requests/6.jsonl", leave)
    land(landing, "requests/7.jsonl", dated)
    again = run(home, landing, "requests")
    assert (again["accepted"], again["files"], again["rejects_by_reason"]) == (1, 2, {"unknown_subscription": 1})
    assert [Path(one["path"]).name for one in again["repeated"]] == ["7.jsonl"]


# Rounds


@pytest.mark.parametrize("killed", [False, True])
def test_the_order_of_the_files_of_a_round_makes_nothing_late(tmp_path: Path, killed: bool) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home", lateness_seconds=0)
    land(landing, "objects/a.csv", HEADER + row("a", 1))
    large = (
        HEADER + row("b") + row("a", 1) + f"c,2026-03-01T00:00:00Z,1,2,{random.Random(1).randbytes(500_000).hex()}\n"
    )
    (landing / "objects" / "b.csv.gz").write_bytes(gzip.compress(large.encode()))
    if killed:
        assert home.crash("ingest.done", "run", landing).code != 0
        assert stored(home) == ["a"], "a group of its own, as the other file is large"
        home.ingest("objects", [land(tmp_path, "x.csv", HEADER + row("x", 2))])
    assert run(home, landing)["rejects_by_reason"] == {"duplicate": 1} and set(stored(home)) >= {"a", "b", "c"}
    land(landing, "objects/d.csv", HEADER + row("d"))
    assert run(home, landing)["rejects_by_reason"] == {"late": 1}, "the round has ended"
    assert home.run("check", "--all")["success"]


def test_a_file_with_the_bytes_of_another_is_of_the_same_round(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home", lateness_seconds=0)
    for name in ("a.jsonl", "b.csv"):  # what comes second is read when the first has been judged
        land(landing, f"objects/{name}", HEADER + row("a"))
    land(landing, "objects/c.csv", HEADER + row("c", 1))
    assert "late" not in run(home, landing)["rejects_by_reason"] and stored(home) == ["a", "c"]


# Files that wait


def test_a_file_whose_last_line_has_no_end_waits_and_holds_back_its_owner_alone(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home")
    first = land(landing, "requests/1.jsonl", ASKED.format("a", "").rstrip("\n"))
    land(landing, "requests/2.jsonl", ASKED.format("b", ""))
    land(landing, "objects/1.csv", HEADER + row("a").rstrip("\n"))
    land(landing, "objects/2.csv", HEADER + row("b"))
    done = home.run("run", landing)["ingest"]
    assert [Path(one).name for one in done["requests"]["passed_over"]] == ["1.jsonl", "2.jsonl"]
    assert [Path(one).name for one in done["objects"]["passed_over"]] == ["1.csv"] and stored(home) == ["b"]
    old = time.time() - 60
    os.utime(first, (old, old))
    assert run(home, landing, "requests")["accepted"] == 2


def test_an_object_of_a_half_written_line_makes_way_for_the_whole_one(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home", settle_seconds=0)
    land(landing, "requests/1.jsonl", ASKED.format("s", ', "created_at": "2026-01-01T00:00:00Z"'))
    place = "object_id,ts,text,lon,lat\n"
    whole = [f"{name},2026-03-01T00:00:0{n}Z,tea,18.07,59.33\n" for n, name in enumerate("ab")]
    path = land(landing, "objects/1.csv", place + "".join(whole).removesuffix("9.33\n"))
    assert run(home, landing)["accepted"] == 2
    path.write_text(place + "".join(whole), "utf-8")
    done = run(home, landing)
    assert (done["accepted"], done["rejects_by_reason"]) == (1, {"duplicate": 1})
    rows = table_of(home, "objects").to_pyarrow_table().to_pylist()
    assert sorted((one["object_id"], one["lat"]) for one in rows) == [("a", 59.33), ("b", 5.0), ("b", 59.33)]
    assert {one[0] for one in home.exported()} == {"a", "b"}
    assert home.run("check", "--all")["success"]
    path.write_text(place + "".join(whole) + "c" + whole[0][1:], "utf-8")
    assert run(home, landing)["accepted"] == 1, "a line that had its end stays"


def test_a_half_written_request_is_none_and_its_whole_line_counts(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home", settle_seconds=0)
    at = ', "created_at": "2026-01-01T00:00:00Z"'
    whole = [ASKED.format("a", at), ASKED.format("b", at)]
    path = land(landing, "requests/1.jsonl", whole[0] + whole[1].removesuffix("}\n"))
    assert run(home, landing, "requests")["accepted"] == 1
    path.write_text("".join(whole), "utf-8")
    done = run(home, landing, "requests")
    assert (done["accepted"], done["rejects_by_reason"]) == (1, {"already_live": 1})
    land(landing, "objects/1.csv", HEADER + row("x"))
    run(home, landing)
    assert {one[2] for one in home.exported()} == {"a", "b"}


# A file that does not fit


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB; only root may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "pststream", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_file_whose_rows_do_not_fit_on_the_disk_keeps_no_other_out(small_disk: Path, tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(small_disk / "home")
    land(landing, "objects/a.csv", HEADER + row("a"))
    bomb = HEADER + "".join(f"x{n},2026-03-01T00:00:00Z,1,2,{'tea ' * 250}\n" for n in range(50_000))
    (landing / "objects" / "big.csv.gz").write_bytes(gzip.compress(bomb.encode(), 9))
    done = run(home, landing)
    assert (done["files"], [Path(one).name for one in done["passed_over"]]) == (1, ["big.csv.gz"])
    assert not list(home.path.glob("staging/*.arrow")), "no rows stay"
    for number in range(4):
        land(landing, f"objects/{number}.csv", HEADER + row(f"b{number}"))
        done = run(home, landing)
        assert done["accepted"] == 1
    (held,) = done["quarantined"]
    assert held["reasons"] == ["its rows need more than half of the free space of the disk, 5 times"]
    assert stored(home) == ["a", "b0", "b1", "b2", "b3"] and home.run("check", "--all")["success"]


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder of a landing folder, in which 1,100 folders lie in one another."""
    deep = tmp_path / "landing" / "objects" / "deep"
    deep.mkdir(parents=True)
    place = os.open(deep, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
    yield deep
    subprocess.run(["rm", "-rf", str(deep)], check=True)  # Python removes no such folder


def test_deep_folders_and_files_with_holes_stop_no_run(deep: Path, tmp_path: Path) -> None:
    landing, home = deep.parents[1], home_at(tmp_path / "home")
    land(landing, "objects/a.csv", HEADER + row("a"))
    with open(land(landing, "objects/holes.csv", HEADER), "r+b") as holes:
        holes.truncate(1 << 40)
    done = run(home, landing)
    assert (done["accepted"], [Path(one).name for one in done["passed_over"]]) == (1, ["holes.csv"])


def test_no_link_leads_into_the_folder_of_another_sender(tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(tmp_path / "home")
    land(landing, "requests/ada/1.jsonl", ASKED.format("a", ', "payload": {"secret": "token"}'))
    (landing / "requests" / "eve").mkdir()
    (landing / "requests" / "eve" / "1.jsonl").symlink_to("../ada/1.jsonl")
    done = run(home, landing, "requests")
    assert (done["accepted"], done["passed_over"]) == (1, [str(landing / "requests/eve/1.jsonl")])
    owners = table_of(home, "requests").to_pyarrow_table().column("owner").to_pylist()
    assert owners == ["ada"]


def test_a_file_that_others_crowd_out_is_read_alone_in_the_same_run(small_disk: Path, tmp_path: Path) -> None:
    landing, home = tmp_path / "landing", home_at(small_disk / "home")
    for name, count in (("a", 9_000), ("b", 9_000), ("c", 9_000)):
        content = HEADER + "".join(f"{name}{n},2026-03-01T00:00:00Z,1,2,{'tea ' * 250}\n" for n in range(count))
        path = landing / "objects" / name / "x.csv.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(content.encode(), 9))
    done = run(home, landing)
    assert (done["accepted"], done["passed_over"]) == (27_000, [])


def test_attributes_come_back(tmp_path: Path) -> None:
    """Columns that are no field are in exports, answers, questions, SQL and messages, after a retry too."""
    home = new_home(tmp_path / "home", engine="local", workers=2, lateness_seconds=3_600, max_ahead_seconds=0)
    with open(home.path / "pststream.toml", "a") as file:
        file.write('\n[sources.shocks]\nfiles = "shocks"\ncolumns = { object_id = "id" }\ntypes = { mag = "number" }\n')
    home.add_sink("file", kind="file", target=str(tmp_path / "sent"))
    landing = tmp_path / "landing"
    for folder in ("requests", "objects/shocks", "objects/posts"):
        (landing / folder).mkdir(parents=True)
    everywhere = {"op": "insert", "keywords": "*", "created_at": worlds.moment(0)}
    asked = [
        everywhere | {"subscription_id": "all", "kind": "range", "bbox": [-180, -90, 180, 90]},
        everywhere | {"subscription_id": "near", "kind": "knn", "point": {"lon": 1, "lat": 1}, "k": 1},
    ]
    worlds.write_rows(landing / "requests" / "r.jsonl", asked)
    times = (worlds.moment(200), worlds.moment(0))
    lines = [f'q{n},{ts},1,1,shock,{5 - n}.10,"x ""{n}"""' for n, ts in enumerate(times)]
    (landing / "objects" / "shocks" / "s.csv").write_text("\n".join(["id,ts,lon,lat,text,mag,note", *lines, ""]))
    post = {"object_id": "p", "ts": times[0], "lon": 9, "lat": 9, "text": "", "big": 2**70, "deep": [{"a": None}]}
    plain = post | {"object_id": "plain"}
    worlds.write_rows(landing / "objects" / "posts" / "p.jsonl", [post])
    worlds.write_rows(landing / "objects" / "posts" / "z.jsonl", [{k: plain[k] for k in worlds.OBJECT_FIELDS}])
    home.run("run", landing)
    late = worlds.write_rows(tmp_path / "late.jsonl", [post | {"object_id": "late", "ts": times[1]}])
    home.ingest("objects", [late])
    home.set(lateness_seconds=10**9)
    assert home.run("ingest", "objects", "--retry-rejects", "late")["accepted"] == 1
    home.match()
    home.run("deliver")

    shock = {"source": "shocks", "mag": 5.1, "note": 'x "0"'}
    deep = {"big": 2**70, "deep": [{"a": None}]}
    expected = {"q0": shock, "q1": shock | {"mag": 4.1, "note": 'x "1"'}, "p": deep, "late": deep, "plain": None}
    home.run("export", "matches", "--out", tmp_path / "m.jsonl")
    exported = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert {row["object_id"]: row["attributes"] for row in exported} == expected
    asked_now = home.run("ask", "--kind", "range", "--keywords", "*", "--bbox=-180,-90,180,90")["answers"]
    assert {row["object_id"]: row["attributes"] for row in asked_now} == expected
    (answer,) = home.run("answers")["answers"]
    assert answer["attributes"] == expected[answer["object_id"]]
    sent = [json.loads(line) for file in (tmp_path / "sent").iterdir() for line in file.read_text().splitlines()]
    shown = {one["object"]["object_id"]: one["object"].get("attributes") for one in sent if one["kind"] == "matched"}
    assert shown == expected
    query = "SELECT object_id FROM objects WHERE CAST(attributes['mag'].value AS DOUBLE) > 5"
    assert pststream.open(home.path).sql(query).column(0).to_pylist() == ["q0"]
