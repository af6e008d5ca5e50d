"""`pststream.open` and its views read what the commands give, without Spark."""

import datetime as dt
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
import shapely.geometry

import pststream
from pststream.base import names
from pststream.base.arrow_columns import one_array
from pststream.base.errors import HomeError, PstError, UsageError
from pststream.base.optional_packages import MissingExtra
from pststream.reports.commands.listings import export_matches, list_rejects
from pststream.reports.commands.status import read_status
from pststream.reports.views import DIALECTS, VIEWS, view_statements
from pststream.state.home import FORMAT, TOO_OLD, Home
from pststream.state.tables import TABLES
from pststream.tables.ledgers import log_key
from pststream.tables.table_files import attributes_as_json
from tests.commands import run_here
from tests.matched_homes import add_matched_batch, add_subscriptions, retractions_of
from tests.unit.reports.commands.homes import (
    add_batch,
    add_file,
    at,
    deletion,
    insertion,
    match_row,
    reject,
    thing,
)

READ_ALL = """
import sys
before = set(sys.modules)
import pststream
loaded = {name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names}
assert loaded == {"pststream"}, loaded
home = pststream.open(sys.argv[1])
print(home.matches().num_rows, home.objects().num_rows, home.requests().num_rows)
assert not {"pyspark", "py4j", "delta", "numba"} & set(sys.modules)
"""


def exported(home: Home, folder: Path, since: dt.datetime | None = None) -> pa.Table:
    out = folder / "matches.parquet"
    export_matches(home, str(out), since)
    return pq.read_table(out)


def matched(home: Home, seed: int) -> None:
    """Add batches with random matches; later batches retract pairs of earlier ones; the last batch is unfinished."""
    keys = add_subscriptions(home, 12, seed)
    first = add_matched_batch(home, keys, 40, seed + 1)
    second = add_matched_batch(home, keys, 30, seed + 2, 60, retractions_of(first, keys[3]))
    add_matched_batch(home, keys, 20, seed + 3, 120, retractions_of(second, keys[5]) + retractions_of(first, keys[0]))
    add_batch(home, retractions_of(first, keys[7]), done=False)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_matches_and_the_view_of_pairs_are_those_of_export(hand_home: Home, tmp_path: Path, seed: int) -> None:
    matched(hand_home, 10 * seed)
    opened = pststream.open(hand_home.path)
    pairs = opened.matches()
    wanted = exported(hand_home, tmp_path)
    assert pairs.num_rows > 300
    assert pairs.equals(wanted)
    view = opened.sql(f"SELECT {', '.join(wanted.schema.names)} FROM pairs")
    attributes = attributes_as_json(one_array(view.column("attributes")))
    view = view.set_column(view.schema.get_field_index("attributes"), "attributes", attributes).cast(wanted.schema)
    order = [("object_id", "ascending"), ("subscription_id", "ascending")]
    assert view.sort_by(order).equals(wanted.sort_by(order))
    assert pairs.equals(opened.matches_reader().read_all())
    subscriptions = set(zip(pairs["object_id"].to_pylist(), pairs["subscription_id"].to_pylist()))
    assert len(subscriptions) == pairs.num_rows
    assert not [pair for pair in subscriptions if pair[0].startswith(f"o{10 * seed + 1}-") and pair[1] == "s4"]
    late = opened.matches(at(61))
    assert 0 < late.num_rows < pairs.num_rows
    assert late.equals(exported(hand_home, tmp_path, at(61)))
    assert late.equals(opened.matches(at(61).replace(tzinfo=None)))


def test_a_new_home_has_no_rows_and_later_rows_are_read(hand_home: Home) -> None:
    opened = pststream.open(Path(hand_home.path))
    assert [opened.matches().num_rows, opened.objects().num_rows, opened.requests().num_rows] == [0, 0, 0]
    assert opened.matches().column_names == [
        "object_id", "owner", "subscription_id", "ts", "batch_id", "plan_version", "payload", "attributes",
    ]  # fmt: skip
    matched(hand_home, 7)
    assert opened.matches().num_rows > 300


def test_objects_and_requests_are_the_rows_of_the_log(hand_home: Home) -> None:
    matched(hand_home, 5)
    opened = pststream.open(hand_home.path)
    objects, requests = opened.objects(), opened.requests()
    assert objects.schema.equals(TABLES[names.OBJECTS].schema)
    assert requests.schema.equals(TABLES[names.REQUESTS].schema)
    ids = [f"o{seed}-{row}" for seed, count in ((6, 40), (7, 30), (8, 20)) for row in range(1, count + 1)]
    assert objects["object_id"].to_pylist() == ids
    assert objects["object_key"].to_pylist() == sorted(objects["object_key"].to_pylist())
    assert requests["subscription_id"].to_pylist() == [f"s{n}" for n in range(1, 13)]
    assert opened.objects_reader().read_all().equals(objects)


def test_a_reader_reads_the_tables_as_they_were(hand_home: Home) -> None:
    matched(hand_home, 5)
    opened = pststream.open(hand_home.path)
    before, readers = opened.matches(), (opened.matches_reader(), opened.objects_reader())
    add_matched_batch(hand_home, [log_key(1, 1)], 10, 99, 500)
    assert readers[0].read_all().equals(before)
    assert readers[1].read_all().num_rows == 90
    assert opened.objects().num_rows == 100


def test_an_error_of_the_tables_reaches_the_reader(hand_home: Home) -> None:
    seen = add_file(hand_home, "objects", [thing(1, "o1")])
    add_batch(hand_home, [match_row(log_key(seen, 1), "o1", 0, [12345])])
    with pytest.raises(PstError, match="12345"):
        pststream.open(hand_home.path).matches()


def test_tables_are_addresses_of_delta_tables(hand_home: Home) -> None:
    tables = pststream.open(hand_home.path).tables
    assert set(tables) == set(TABLES)
    assert all(Path(path, "_delta_log").is_dir() for path in tables.values())


def test_no_home_and_an_older_home_are_refused(hand_home: Home, tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="(?s)does not exist.*pststream init"):
        pststream.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    mark = Path(hand_home.path, "home.json")
    content = json.loads(mark.read_text())
    for changed, remedy in (({"tables": "0"}, TOO_OLD), ({"home_format": FORMAT + 1}, "newer version")):
        mark.write_text(json.dumps(content | changed))
        with pytest.raises(HomeError) as error:
            pststream.open(hand_home.path)
        assert remedy in str(error.value)


def test_neither_import_nor_reading_loads_spark(hand_home: Home) -> None:
    matched(hand_home, 5)
    done = subprocess.run([sys.executable, "-c", READ_ALL, hand_home.path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 300 and done.stdout.split()[1:] == ["90", "12"]


SQUARE = [[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]
HOLE = [[2, 2], [4, 2], [4, 4], [2, 4], [2, 2]]
FAR = [[20.5, -3.25], [20.75, -3.25], [20.75, -3.0], [20.5, -3.25]]


def rows(home: Home, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pststream.open(home.path).sql(query).to_pylist()
    return found


def regions(home: Home) -> dict[str, tuple[Any, float | None]]:
    found = rows(home, "SELECT subscription_id, region, radius_m FROM subscriptions")
    return {row["subscription_id"]: (shapely.from_wkt(row["region"]), row["radius_m"]) for row in found}


def test_regions_are_texts_of_the_same_shape(hand_home: Home) -> None:
    polygons = {
        "one": {"type": "Polygon", "coordinates": [SQUARE]},
        "clockwise": {"type": "Polygon", "coordinates": [SQUARE[::-1], HOLE]},
        "several": {"type": "MultiPolygon", "coordinates": [[SQUARE, HOLE], [FAR]]},
    }
    requests = [
        insertion(1, "box", bbox=[-1.5, 2.0, 3.25, 4.0]), insertion(2, "wide", bbox=[170.0, -5.0, -160.0, 5.0]),
        insertion(3, "circle", bbox=None, circle={"lon": 18.07, "lat": 59.33, "radius_m": 5000.5}),
        *(insertion(row, name, bbox=None, geometry=one) for row, (name, one) in enumerate(polygons.items(), 4)),
    ]  # fmt: skip
    add_file(hand_home, "requests", requests)
    found = regions(hand_home)
    assert found["box"][0].equals(shapely.box(-1.5, 2.0, 3.25, 4.0))
    wide = shapely.MultiPolygon([shapely.box(170, -5, 180, 5), shapely.box(-180, -5, -160, 5)])
    assert found["wide"][0].equals(wide)
    assert found["circle"] == (shapely.Point(18.07, 59.33), 5000.5)
    for name, geometry in polygons.items():
        assert found[name][0].equals(shapely.geometry.shape(geometry)), name
        assert found[name][0].is_valid and found[name][1] is None


def test_subscriptions_end_by_deletion_or_expiry(hand_home: Home) -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)
    requests = [
        insertion(1, "live", payload='{"a": 1}'),
        insertion(2, "deleted"),
        insertion(3, "expired", expires_at=at(5)),
        insertion(4, "both", expires_at=at(9)),
        insertion(5, "future", expires_at=later),
        insertion(6, "not yet", 60 * 24 * 36500),
    ]
    asked = add_file(hand_home, "requests", requests)
    deletions = [deletion(1, "deleted", 3, log_key(asked, 2)), deletion(2, "both", 4, log_key(asked, 4))]
    add_file(hand_home, "requests", deletions)
    add_file(hand_home, "requests", [deletion(1, "live", 3, log_key(asked, 1)), insertion(2, "unfinished")], done=False)
    found = {row["subscription_id"]: row for row in rows(hand_home, "SELECT * FROM subscriptions")}
    ends = {name: row["end_at"] for name, row in found.items()}
    assert ends == {
        "live": None, "deleted": at(3), "expired": at(5), "both": at(4), "future": later, "not yet": None,
    }  # fmt: skip
    assert {name for name, row in found.items() if row["is_live"]} == {"live", "future"}
    assert found["both"]["subscription_key"] == log_key(asked, 4)
    status = read_status(hand_home)["subscriptions"]
    assert status == {"live": 2, "inserted": len(found)}
    live = found["live"]
    assert (live["created_at"], live["kind"], live["payload"]) == (at(-60), "range", '{"a": 1}')
    assert live["keywords"] == "coffee AND (free OR cheap)"


def test_batches_done_has_each_finished_batch_once(hand_home: Home) -> None:
    add_file(hand_home, "objects", [thing(1, "o1")])
    for done in (True, True, False):
        add_batch(hand_home, [], done=done)
    found = rows(hand_home, "SELECT * FROM batches_done ORDER BY batch_id")
    assert [row["batch_id"] for row in found] == [1, 2]
    ledger = rows(hand_home, "SELECT * FROM batches WHERE status = 'done' ORDER BY batch_id")
    assert found == [{name: value for name, value in kept.items() if name != "status"} for kept in ledger]
    steps = rows(hand_home, "SELECT seconds_by_step['match'] AS seconds FROM batches_done")
    assert [row["seconds"] for row in steps] == [1.5, 1.5]


def test_rejects_by_file_counts_the_rejects_of_finished_ingests(hand_home: Home) -> None:
    bad = [reject(2, "late", "ts"), reject(3, "late", "ts"), reject(5, "not_a_number", "lon", "x")]
    add_file(hand_home, "objects", [thing(1, "o1")], bad)
    add_file(hand_home, "requests", [insertion(2, "s1")], bad[2:])
    wanted = Counter((r["ingest_id"], r["kind"], r["file"], r["field"], r["reason"]) for r in list_rejects(hand_home))
    add_file(hand_home, "objects", [thing(1, "o2")], bad, done=False)
    found = rows(hand_home, "SELECT * FROM rejects_by_file")
    counts = {tuple(row[name] for name in ("ingest_id", "kind", "file", "field", "reason")): row for row in found}
    assert {key: row["rejects"] for key, row in counts.items()} == wanted
    assert sorted((row["reason"], row["first_row"]) for row in found) == [
        ("late", 2), ("not_a_number", 5), ("not_a_number", 5),
    ]  # fmt: skip


def test_queries_read_tables_too(hand_home: Home) -> None:
    add_file(hand_home, "objects", [thing(1, "o1"), thing(2, "o2")])
    assert rows(hand_home, "SELECT count(*) AS n FROM OBJECTS, files WHERE status = 'done'") == [{"n": 2}]


@pytest.mark.parametrize("query", ["SELECT nothing FROM pairs", "SELECT", "SELECT * FROM reader"])
def test_a_wrong_query_is_refused(hand_home: Home, query: str) -> None:
    with pytest.raises(UsageError, match="the query failed"):
        rows(hand_home, query)


def test_without_duckdb_the_error_names_the_extra(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"(?s)duckdb is not installed.*'pststream\[sql\]'"):
        rows(hand_home, "SELECT 1")


@pytest.mark.parametrize("dialect", names.SQL_DIALECTS)
def test_the_command_prints_a_statement_for_each_view(hand_home: Home, dialect: str) -> None:
    shown = run_here("sql", "--dialect", dialect, "--home", hand_home.path)
    statements = view_statements(hand_home, dialect)
    assert shown.code == 0 and shown.out.rstrip("\n") == ";\n\n".join(statements) + ";"
    for view in VIEWS:
        assert sum(f"VIEW {DIALECTS[dialect].prefix}{view} AS" in statement for statement in statements) == 1
    assert f"{hand_home.path}/tables/matches" in shown.out
    assert run_here("sql", "--dialect", "cobol", "--home", hand_home.path).code == 2


def test_all_dialects_can_be_named() -> None:
    assert tuple(DIALECTS) == names.SQL_DIALECTS
