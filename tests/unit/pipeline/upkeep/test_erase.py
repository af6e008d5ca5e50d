"""`erase` removes every trace of its ids, and all other matches stay those of a twin home without the erasure."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import pststream
from pststream.base.errors import HomeBusy
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.upkeep import erase as module
from pststream.pipeline.upkeep.erase import erase
from pststream.settings import Settings
from pststream.state import erasures, ledger_tables, quarantine
from pststream.state.deliveries import Counts, SinkProgress, read_progress, save_progress
from pststream.state.delta_log import APPEND_ONLY
from pststream.state.home import Home as State
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import read_table, table_version
from tests import worlds
from tests.commands import ROOT, Home, new_home
from tests.erased_homes import (
    MARKER,
    OBJECT,
    SUBSCRIPTION,
    finish_world,
    marked_home,
    marked_world,
    places_with,
    random_ids,
    raw_files_with,
    refuse_messages,
    twin_of,
    without,
)
from tests.fuzz.cases import seeds
from tests.unit.reports.commands.homes import add_file, thing

BOTH = ("--object-id", OBJECT, "--subscription-id", SUBSCRIPTION)


@pytest.fixture(scope="module")
def erased(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Home, dict[str, Any]]:
    """A home from which the marked rows were erased, its twin, and documents of the commands."""
    folder = tmp_path_factory.mktemp("erased")
    world = marked_world(folder / "files", 7)
    home = marked_home(folder / "home", world)
    twin = twin_of(home)
    refuse_messages(home)
    for folder in ("pages", "logs"):
        (home.path / folder).mkdir()
    home.run("report", "--out", home.path / "pages" / "report.html")
    (home.path / "logs" / "spark.log").write_text(f"WARN task of {SUBSCRIPTION} failed")
    documents = {"places": places_with(home.path), "plan": home.run("erase", *BOTH, "--dry-run")}
    documents["untouched"] = places_with(home.path)
    documents["done"] = home.run("erase", *BOTH)
    documents["left"] = places_with(home.path)
    finish_world(home, world)
    finish_world(twin, world)
    return home, twin, documents


def test_no_table_and_no_file_names_what_was_erased(erased: tuple[Home, Home, dict[str, Any]]) -> None:
    _, _, documents = erased
    tables = {"objects", "requests", "matches", "rejects", "dead_letters", "vocabulary", "answer_log"}
    assert {f"table {name}" for name in tables} <= set(documents["places"])
    assert "logs/spark.log" in documents["places"]
    assert documents["untouched"] == documents["places"]
    assert documents["left"] == []


def test_counts_by_table_are_those_of_the_dry_run(erased: tuple[Home, Home, dict[str, Any]]) -> None:
    home, _, documents = erased
    done, planned = documents["done"], documents["plan"]
    assert done["rows"] == planned["rows"] and not planned["erasure_id"]
    assert done["rows"]["objects"] >= 1 and done["rows"]["requests"] >= 1 and done["rows"]["worker_index"] >= 1
    assert len(done["input_files"]) >= 2 and done["files"] >= 1
    recorded = erasures.removed_rows(State(home.path)).to_pylist()
    assert {row["table_name"]: row["rows_removed"] for row in recorded if row["table_name"] != "rejects"} == {
        name: count for name, count in done["rows"].items() if name != "rejects"
    }


def test_other_matches_are_those_of_the_twin(erased: tuple[Home, Home, dict[str, Any]]) -> None:
    home, twin, _ = erased
    wanted = without(twin.exported(), {OBJECT}, {SUBSCRIPTION})
    assert without(home.exported(), {OBJECT}, {SUBSCRIPTION}) == wanted and len(wanted) > 100
    assert home.run("check", "--all")["success"]
    pairs = pststream.open(str(home.path)).sql("SELECT object_id, subscription_id FROM pairs").to_pylist()
    assert sorted(tuple(row.values()) for row in pairs) == sorted((o, s) for o, _, s in home.exported())


def test_append_only_tables_stay_append_only(erased: tuple[Home, Home, dict[str, Any]]) -> None:
    home, _, _ = erased
    for table in TABLES.values():
        properties = DeltaTable(home.path / "tables" / table.name).metadata().configuration
        assert (properties.get(APPEND_ONLY) == "true") == table.append_only, table.name


def test_a_backup_made_afterwards_has_nothing(erased: tuple[Home, Home, dict[str, Any]], tmp_path: Path) -> None:
    home, _, _ = erased
    home.run("erase", *BOTH)
    home.run("backup", "--out", tmp_path / "backup")
    assert raw_files_with(tmp_path / "backup") == []
    assert Home(tmp_path / "backup").exported() == home.exported()


def test_replay_gives_equal_matches_after_an_erasure(erased: tuple[Home, Home, dict[str, Any]], tmp_path: Path) -> None:
    home, _, _ = erased
    assert home.run("replay", "--last", "2", "--planner", "grid", "--out", tmp_path / "replay")["matches_equal"]


def test_vacuum_now_leaves_no_byte(tmp_path: Path) -> None:
    world = marked_world(tmp_path / "files", 11)
    home = marked_home(tmp_path / "home", world)
    refuse_messages(home)
    home.run("maintain")  # older versions of compacted files have the rows too
    document = home.run("erase", *BOTH, "--vacuum-now")
    assert document["vacuumed"] and document["files_until"] is None
    assert raw_files_with(home.path) == []
    assert home.run("check", "--all")["success"]
    finish_world(home, world)
    assert home.run("check", "--all")["success"]


@pytest.mark.slow
@seeds(2)
def test_random_ids(tmp_path: Path, seed: int) -> None:
    world = worlds.random_world(100 + seed, objects=200, requests=150, files=6)
    (tmp_path / "files").mkdir()
    written = worlds.write_world(tmp_path / "files", world, seed)
    home = marked_home(tmp_path / "home", written)
    twin = twin_of(home)
    objects, subscriptions = random_ids(home, world, seed)
    (tmp_path / "ids").write_text("\n".join(sorted(objects)) + "\n")
    arguments = ["--object-ids", str(tmp_path / "ids")]
    for one in sorted(subscriptions):
        arguments += ["--subscription-id", one]
    if seed % 2:
        home.ingest("objects", written.objects[3:4])  # erased before they are matched
        twin.ingest("objects", written.objects[3:4])
    home.run("erase", *arguments)
    assert home.run("check", "--all")["success"]
    assert home.exported() == without(home.exported(), objects, subscriptions)
    assert home.exported() == without(twin.exported(), objects, subscriptions)
    finish_world(home, written)
    finish_world(twin, written)
    home.run("maintain")
    assert home.run("check", "--all")["success"]
    assert without(home.exported(), objects, subscriptions) == without(twin.exported(), objects, subscriptions)


POINT = {"lon": 1.0, "lat": 1.0, "text": "tea"}
ASK = {"op": "insert", "keywords": "tea", "bbox": [0, 0, 2, 2], "created_at": worlds.moment(0)}


def small_home(folder: Path, *objects: dict[str, Any]) -> Home:
    """Make a home with objects under one subscription, matched."""
    home = new_home(
        folder / "home",
        engine="local",
        planner="frequency",
        workers=1,
        cache_dir=str(folder / "cache"),
        gate_min_rows=1,
    )
    home.ingest("requests", [worlds.write_rows(folder / "asked.jsonl", [{**ASK, "subscription_id": "s"}])])
    rows = [{"ts": worlds.moment(n), **POINT, **row} for n, row in enumerate(objects)]
    home.ingest("objects", [worlds.write_rows(folder / "things.jsonl", rows)])
    home.match()
    return home


def test_an_erased_id_is_accepted_again(tmp_path: Path) -> None:
    home = small_home(tmp_path, {"object_id": "a"}, {"object_id": "b"})
    home.run("erase", "--object-id", "a", "--subscription-id", "s")
    assert home.exported() == []
    again = [{"object_id": name, "ts": worlds.moment(1), **POINT} for name in ("a", "b")]
    home.ingest("objects", [worlds.write_rows(tmp_path / "again.jsonl", again)])
    home.ingest(
        "requests",
        [worlds.write_rows(tmp_path / "asked2.jsonl", [{**ASK, "subscription_id": "s", "payload": {"by": 2}}])],
    )
    home.match()
    assert [(o, s) for o, _, s in home.exported()] == [("a", "s"), ("b", "s")]
    assert home.rejects() == {("objects", "duplicate"): 1}
    assert home.run("check", "--all")["success"]


def test_where_selects_objects(tmp_path: Path) -> None:
    home = small_home(
        tmp_path, {"object_id": "a", "text": "tea 'now'"}, {"object_id": "b"}, {"object_id": "c", "lon": 1.5}
    )
    document = home.run("erase", "--where", "text LIKE '%now%'", "--where", "lon > 1.2 OR lat > 80")
    assert document["object_ids"] == 2 and document["rows"]["objects"] == 2
    assert [o for o, _, _ in home.exported()] == ["b"]
    (ids := tmp_path / "ids.txt").write_text("\ufeffb\r\nc\u2028d\n", "utf-8")  # with a byte order mark
    planned = home.run("erase", "--object-ids", ids, "--dry-run")
    assert planned["object_ids"] == 2 and planned["rows"]["objects"] == 1
    home.run("erase", "--where", "no_column = 1", code=2)
    home.run("erase", "--where", "(", code=2)
    home.run("erase", code=2)
    assert home.run("erase", "--object-id", "b", "--object-ids", tmp_path / "missing", code=2) is not None


def test_a_digest_loses_the_object_only(tmp_path: Path) -> None:
    home = small_home(tmp_path, *({"object_id": f"o{n}"} for n in range(4)))
    refuse_messages(home)
    home.run("erase", "--object-id", "o3")
    rows = DeltaTable(home.path / "tables" / "dead_letters").to_pyarrow_table().to_pylist()
    digests = [json.loads(row["message"]) for row in rows if row["kind"] == "digest"]
    assert [[one["object_id"] for one in digest["objects"]] for digest in digests] == [["o1", "o2"]]
    assert [digest["count"] for digest in digests] == [2]
    assert "o3" not in json.dumps(rows, default=str)


def test_a_sink_begins_its_batch_again(tmp_path: Path) -> None:
    home = small_home(tmp_path, *({"object_id": f"o{n}"} for n in range(4)))
    home.add_sink("out", kind="file", target=str(tmp_path / "sink"))
    save_progress(State(home.path), "out", SinkProgress(1, 2, False), Counts(2, 0, 0))
    home.run("erase", "--object-id", "o0")
    assert read_progress(State(home.path), "out") == SinkProgress(1, 0, False)
    home.run("deliver")
    sent = "".join(path.read_text() for path in sorted((tmp_path / "sink").rglob("*")) if path.is_file())
    assert [name in sent for name in ("o0", "o1", "o2", "o3")] == [False, True, True, True]


CLEAN = {"clean.parquet", "clean.csv"}


def hostile_files(folder: Path, name: str) -> dict[str, bytes]:
    """Return files of objects that name an id in ways that a search of their bytes misses, or that cannot be searched,
    and two that do not name it.
    """
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in name)
    far = pa.array([[2**62]], pa.list_(pa.timestamp("us")))  # beyond the year 9999
    pq.write_table(pa.table({"object_id": [name], "seen": far}), folder / "a.parquet", compression="zstd")
    pq.write_table(pa.table({"object_id": ["x"], "text": [name], "seen": far}), folder / "x.parquet")
    parquet, other = (folder / "a.parquet").read_bytes(), (folder / "x.parquet").read_bytes()
    return {
        "a.PARQUET": parquet,
        "b.parquet.gz": gzip.compress(parquet),
        "c.jsonl": f'{{"object_id": "{escaped}"}}\n'.encode(),
        "d.csv": b'object_id\n"%b"\n' % name.replace('"', '""').encode(),
        "e.jsonl": f'{{"object_id": "{name}", \n'.encode(),
        "abort.csv": b"object_id\nx\n",  # its reader is killed
        "fail.csv": b"object_id\ny\n",  # its reader fails
        "no-id.csv": b"name\nx\n",
        "long.jsonl": b"{" + b" " * 5000 + f'"{name}'.encode() + b"\n",
        "clean.parquet": other,
        "clean.csv": f"object_id,text\nx,a {name}\n".encode(),
    }


def test_quarantined_files_that_name_an_id_go_and_stop_no_erasure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = 'post/"17"'
    home = small_home(tmp_path, {"object_id": name}, {"object_id": "b"})
    home.ingest("objects", [worlds.write_rows(tmp_path / "bad.jsonl", [{"object_id": "x", "ts": None, **POINT}])])
    state, landed = State(home.path), tmp_path / "landed"
    (first,) = quarantine.read_entries(state)
    landed.mkdir()
    contents = hostile_files(tmp_path, name)
    for path, content in contents.items():
        (landed / path).write_bytes(content)
    files = [
        first | {"path": str(landed / path), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in contents.items()
    ]
    assert len(quarantine.add_entries(state, [(file, ["bad"]) for file in files], 2)) == len(files)
    clean = {"bad.jsonl", *CLEAN}
    expected = sorted(str(landed / path) for path in contents if path not in clean)
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "hostile_readers"))
    assert home.run("erase", "--object-id", name, "--dry-run")["quarantined_files"] == expected
    assert {one["status"] for one in quarantine.read_entries(state)} == {"held"}
    assert home.run("erase", "--object-id", name)["quarantined_files"] == expected
    kept = [Path(one["path"]).name for one in quarantine.read_entries(state) if one["status"] == "held"]
    assert set(kept) == clean == {path.name for path in (home.path / "quarantine").rglob("*.*")}
    assert len(home.exported()) == 1 and home.run("check", "--all")["success"]


def test_sentences_and_staged_rows_of_a_discarded_file_go(tmp_path: Path) -> None:
    shown = f"{MARKER}-" + "i" * 80
    home = small_home(tmp_path, {"object_id": shown}, {"object_id": "b"})
    bad = [{"object_id": name, "ts": None, **POINT} for name in (shown, "x")]
    home.ingest("objects", [worlds.write_rows(tmp_path / "bad.jsonl", bad)])
    home.run("quarantine", "discard", "1")
    state, other = State(home.path), "suite s: another is not met"
    failed = [f"suite s: it is not met: 1 of 2 rows do not meet it, such as {shown[:60]}…", other]
    for name, column in (("quality_results", "failed"), ("quarantine", "reasons")):
        last = read_table(state.table(name)).to_pylist()[-1]
        ledger_tables.append(state, name, [last | {column: []}, last | {column: failed}])
    left = {"quarantine/1/bad.jsonl", "spool/0123/bad.jsonl", "staging/rows-0123.arrow"}  # by killed commands
    for one in left:
        (home.path / one).parent.mkdir(parents=True, exist_ok=True)
        (home.path / one).write_text(shown)
    assert {"table quality_results", "table quarantine", *left} <= set(places_with(home.path))
    plan = home.run("erase", "--object-id", shown, "--dry-run")
    document = home.run("erase", "--object-id", shown)
    assert document["rows"] == plan["rows"]
    assert document["rows"]["quality_results"] == document["rows"]["quarantine"] == 1
    assert places_with(home.path) == [] and not state.files.names("staging")
    for name, column in (("quality_results", "failed"), ("quarantine", "reasons")):
        rows = read_table(state.table(name), [column]).column(0).to_pylist()
        assert [other] in rows and [] in rows and failed not in rows
    assert [one["status"] for one in quarantine.read_entries(state)] == ["discarded"]


def test_words_stay_where_other_rows_have_them(tmp_path: Path) -> None:
    home = small_home(tmp_path, {"object_id": "a", "text": f"tea {MARKER}"}, {"object_id": "b", "text": "tea cup"})
    home.run("erase", "--object-id", "a")
    words = DeltaTable(home.path / "tables" / "vocabulary").to_pyarrow_table().column("term").to_pylist()
    assert MARKER not in words and "tea" in words


SETTINGS = Settings(sinks=(SinkSettings("a", "file", "unused"),))


@pytest.mark.parametrize("scope", ["deliver-a", "compact-deliveries"])
def test_the_error_names_the_process_and_the_next_step(
    hand_home: State, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setattr(module, "RUNNER_WAIT_SECONDS", 0.1)
    add_file(hand_home, "objects", [thing(1, "o")])
    before = {name: table_version(hand_home.table(name)) for name in TABLES}
    with State(hand_home.path).locked(scope), pytest.raises(HomeBusy, match="is in use by .* \\(process") as caught:
        erase(hand_home, SETTINGS, object_ids=["o"])
    assert "stop that process" in caught.value.hint and "pststream status" in caught.value.hint
    assert {name: table_version(hand_home.table(name)) for name in TABLES} == before
    assert not Path(hand_home.path, "erasing.json").exists()
    assert erase(hand_home, SETTINGS, object_ids=["o"])["rows"] == {"objects": 1}
