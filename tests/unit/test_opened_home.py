"""`pststream.open` reads pairs exactly as `export` writes them, objects and requests, without Spark."""

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pststream
from pststream.base import names
from pststream.base.errors import HomeError, PstError
from pststream.reports.commands.listings import export_matches
from pststream.state.home import FORMAT, TOO_OLD, Home
from pststream.state.tables import TABLES
from pststream.tables.ledgers import log_key
from tests.matched_homes import add_matched_batch, add_subscriptions, retractions_of
from tests.unit.reports.commands.homes import add_batch, add_file, at, match_row, thing

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
def test_matches_are_those_of_export(hand_home: Home, tmp_path: Path, seed: int) -> None:
    matched(hand_home, 10 * seed)
    opened = pststream.open(hand_home.path)
    pairs = opened.matches()
    assert pairs.num_rows > 300
    assert pairs.equals(exported(hand_home, tmp_path))
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
        "object_id", "subscription_id", "ts", "batch_id", "plan_version", "payload",
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
