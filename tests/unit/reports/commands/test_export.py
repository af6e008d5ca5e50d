"""Export writes every pair of finished batches once, without retracted ones, in three formats."""

import csv
import datetime as dt
import io
import json
import os
import random
import re
import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base.errors import PstError, UsageError
from pststream.reports.commands.listings import export_matches
from pststream.reports.pages.report_page import write_report
from pststream.reports.reading import pairs as pairs_module
from pststream.state.home import Home
from pststream.tables.ledgers import log_key
from tests.unit.reports.commands.homes import add_batch, add_file, at, insertion, match_row, thing

ODD_IDS = ('a,"b"', "new\nline", "tab\tand\\", "東京", " blank ", "", "quote'", "\x01\x7f", "cr\rhere", "😀")


def filled(home: Home) -> list[int]:
    """Two subscriptions, three objects; batches 1 and 2 done, 3 not; keys of the subscriptions."""
    asked = add_file(home, "requests", [insertion(1, "s1"), insertion(2, "s2", payload='{"user": "Ada"}')])
    seen = add_file(home, "objects", [thing(1, "o1", 1), thing(2, "o2", 2), thing(3, "o3", 3)])
    s1, s2 = log_key(asked, 1), log_key(asked, 2)
    o1, o2, o3 = (log_key(seen, row) for row in (1, 2, 3))
    add_batch(home, [match_row(o1, "o1", 1, [s1, s2]), match_row(o2, "o2", 2, [s2], worker=1)], objects_to=o2)
    add_batch(home, [match_row(o3, "o3", 3, [s1]), match_row(o1, "o1", 1, [s2], retracted=True, worker=-1)])
    add_file(home, "objects", [thing(1, "o4", 4)])
    add_batch(home, [match_row(o3, "o3", 3, [s2]), match_row(o3, "o3", 3, [s1], retracted=True)], done=False)
    return [s1, s2]


def exported(home: Home, folder: Path, since: dt.datetime | None = None) -> list[tuple[str, ...]]:
    """What a CSV export holds, without its header."""
    out = folder / "m.csv"
    export_matches(home, str(out), since)
    with open(out, newline="", encoding="utf-8") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def test_csv(hand_home: Home, tmp_path: Path) -> None:
    filled(hand_home)
    out = tmp_path / "m.csv"
    assert export_matches(hand_home, str(out)) == {"out": str(out), "rows": 3}
    assert out.read_text("utf-8") == (
        "object_id,owner,subscription_id,ts,batch_id,plan_version,payload,attributes\n"
        "o1,,s1,2026-03-01T00:01:00.000000Z,1,1,,\n"
        'o2,,s2,2026-03-01T00:02:00.000000Z,1,1,"{""user"": ""Ada""}",\n'
        "o3,,s1,2026-03-01T00:03:00.000000Z,2,1,,\n"
    )
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["m.csv"]


def test_files_that_a_user_names_follow_his_umask(hand_home: Home, tmp_path: Path) -> None:
    """Unlike those of the home, which are for its user alone."""
    filled(hand_home)
    before = os.umask(0o027)
    try:
        for name in ("m.csv", "m.jsonl", "m.parquet"):
            export_matches(hand_home, str(tmp_path / name))
        write_report(hand_home.path, str(tmp_path / "page.html"))
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir() if path.is_file()}
    assert modes == dict.fromkeys(("m.csv", "m.jsonl", "m.parquet", "page.html"), "0o640")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("=1+1", "'=1+1"), ("@sum", "'@sum"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("-x,y", "'-x,y"),
        ("\t=1", "'\t'=1"), ("\n=1", "'\n'=1"), ("-12.5", "-12.5"), ("+46", "+46"), ("a=1", "a=1"), ("-", "'-"),
        ("\ttext", "'\ttext"), ("\rtext", "'\rtext"), ("\t-12.5", "'\t'-12.5"), ("＝1", "'＝1"), ("＋1", "'＋1"),
        ("－1", "'－1"), ("＠sum", "'＠sum"), ("−1", "'−1"), (" =1", "' =1"), ("\ufeff=1", "'\ufeff=1"),
        ('"=1', "'\"=1"),
        ("a;=1;b", "a;'=1;b"), ("a|=1", "a|'=1"), ("a\t=1", "a\t'=1"), ("a\r\n=1", "a\r\n'=1"), ("a; ＝1", "a;' ＝1"),
        ('a;"=1', "a;'\"=1"), ("a;\t|@b", "a;\t|'@b"), ("a;b|c\td", "a;b|c\td"), ("'=1", "''=1"), ("'s", "'s"),
        ("a;'=1", "a;''=1"), ("it's", "it's"), ("{x; -1}", "{x;' -1}"),
    ],
)  # fmt: skip
def test_no_id_is_a_formula_to_a_spreadsheet(hand_home: Home, tmp_path: Path, name: str, shown: str) -> None:
    asked = add_file(hand_home, "requests", [insertion(1, name, owner=name)])
    seen = add_file(hand_home, "objects", [thing(1, name, 1)])
    add_batch(hand_home, [match_row(log_key(seen, 1), name, 1, [log_key(asked, 1)])])
    (row,) = exported(hand_home, tmp_path)
    assert row[:3] == (shown, shown, shown)
    export_matches(hand_home, str(tmp_path / "m.jsonl"))
    assert json.loads((tmp_path / "m.jsonl").read_text("utf-8"))["object_id"] == name


@cache
def formula_starts() -> list[str]:
    """The characters that a spreadsheet may read as the start of a formula."""
    starts = {*"=+-@−"}
    return [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.normalize("NFKC", c) in starts]


def cells(text: str, separator: str) -> list[str]:
    """What a spreadsheet that splits the lines of a file at `separator` has in its cells, with and without quotes."""
    rows = [line.split(separator) for line in text.splitlines()]
    return [cell for row in [*rows, *csv.reader(io.StringIO(text, newline=""), delimiter=separator)] for cell in row]


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet may run a cell. A number that a time or an unclosed quote follows is no formula."""
    number = re.match(r"[+-][0-9]+(\.[0-9]+)?(,.*T00:00:00|,[^\"]*(\"[^\"]*\")*[^\"]*\"[^\"]*$|$)", cell, re.DOTALL)
    return cell.lstrip('"\ufeff\u200b\u3000\x01 ')[:1] in formula_starts() and number is None


def restored(field: str) -> str:
    """Apply what docs/delivery.md says to do to a field of the file."""
    section = (Path(__file__).parents[4] / "docs" / "delivery.md").read_text("utf-8").partition("## Files of")[2]
    names: dict[str, Any] = {}
    exec(section.partition("```python\n")[2].partition("```")[0], names)
    text: str = names["without_marks"](field)
    return text


def test_no_cell_is_a_formula_however_lines_are_split_and_texts_come_back(hand_home: Home, tmp_path: Path) -> None:
    rnd = random.Random(25)
    parts = ("1+cmd|'/C calc'!A0;x", "1\"+cmd|'/C calc'!A0+\";x", "-1", "+46", "-1;", "-1|x")
    alphabet = [*"=+-@;|\t\r\n'\"\\ ,a1", *"\ufeff\u200b\u3000\x0b\x85\u2028\x01＝−", *rnd.sample(formula_starts(), 4)]
    ids = sorted(
        {"".join(rnd.choices(alphabet, k=rnd.randint(1, 7))) for _ in range(3_000)} | {*formula_starts(), *parts}
    )
    note = json.dumps({"note": "b;=1+1|@c"})
    asked = add_file(
        hand_home, "requests", [insertion(n, name, owner=name, payload=note) for n, name in enumerate(ids, 1)]
    )
    seen = add_file(hand_home, "objects", [thing(n, name) for n, name in enumerate(ids, 1)])
    places = [n % len(ids) + 1 for n in range(-1, len(ids) - 1)]  # another id beside each
    rows = [match_row(log_key(seen, n), name, 0, [log_key(asked, places[n - 1])]) for n, name in enumerate(ids, 1)]
    add_batch(hand_home, rows)
    found = exported(hand_home, tmp_path)
    assert [tuple(restored(row[n]) for n in (0, 1, 2, 6)) for row in found] == [
        (name, ids[place - 1], ids[place - 1], note) for name, place in zip(ids, places)
    ]
    text = (tmp_path / "m.csv").read_bytes().decode()
    for separator in ";|\t":
        assert [cell for cell in cells(text, separator) if is_formula(cell)] == [], separator


def test_json_lines(hand_home: Home, tmp_path: Path) -> None:
    filled(hand_home)
    out = tmp_path / "m.jsonl"
    assert export_matches(hand_home, str(out))["rows"] == 3
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert rows[1] == {
        "object_id": "o2", "owner": "", "subscription_id": "s2", "ts": "2026-03-01T00:02:00.000000Z",
        "batch_id": 1, "plan_version": 1, "payload": {"user": "Ada"}, "attributes": None,
    }  # fmt: skip
    assert [row["payload"] for row in rows] == [None, {"user": "Ada"}, None]


def test_parquet(hand_home: Home, tmp_path: Path) -> None:
    filled(hand_home)
    out = tmp_path / "m.PARQUET"
    export_matches(hand_home, str(out))
    table = pq.read_table(out)
    assert table.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert table.column("object_id").to_pylist() == ["o1", "o2", "o3"]
    assert table.column("ts").to_pylist() == [at(1), at(2), at(3)]
    assert table.column("payload").to_pylist() == [None, '{"user": "Ada"}', None]


def test_since_takes_objects_from_that_time_on(hand_home: Home, tmp_path: Path) -> None:
    filled(hand_home)
    assert [row[0] for row in exported(hand_home, tmp_path, at(2))] == ["o2", "o3"]
    assert exported(hand_home, tmp_path, at(9)) == []
    zone = dt.timezone(dt.timedelta(hours=2))
    assert [row[0] for row in exported(hand_home, tmp_path, at(3).astimezone(zone))] == ["o3"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_home_without_matches(hand_home: Home, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"m.{ending}"
    assert export_matches(hand_home, str(out))["rows"] == 0
    if ending == "parquet":
        assert pq.read_table(out).num_rows == 0
    else:
        assert len(out.read_text().splitlines()) == (ending == "csv")


def test_odd_ids_come_back_as_they_were(hand_home: Home, tmp_path: Path) -> None:
    asked = add_file(hand_home, "requests", [insertion(n, name) for n, name in enumerate(ODD_IDS, 1)])
    seen = add_file(hand_home, "objects", [thing(n, name) for n, name in enumerate(ODD_IDS, 1)])
    keys = [log_key(asked, n) for n in range(1, len(ODD_IDS) + 1)]
    add_batch(hand_home, [match_row(log_key(seen, n), name, 0, keys) for n, name in enumerate(ODD_IDS, 1)])
    wanted = [(thing_id, subscription_id) for thing_id in ODD_IDS for subscription_id in ODD_IDS]
    assert [(row[0], row[2]) for row in exported(hand_home, tmp_path)] == wanted
    export_matches(hand_home, str(tmp_path / "m.jsonl"))
    lines = (tmp_path / "m.jsonl").read_bytes().decode().split("\n")[:-1]
    assert [(row["object_id"], row["subscription_id"]) for row in map(json.loads, lines)] == wanted


def test_equals_a_slow_twin_over_many_batches(hand_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "_MAX_BYTES", 2_000)  # several steps
    monkeypatch.setattr(pairs_module, "_MAX_PAIRS", 20)
    rnd = random.Random(7)
    asked = add_file(hand_home, "requests", [insertion(n, f"s{n}") for n in range(1, 41)])
    pairs: dict[tuple[str, str], int] = {}
    for batch in range(1, 9):
        seen = add_file(hand_home, "objects", [thing(n, f"o{batch}-{n}", batch) for n in range(1, 31)])
        rows = []
        for n in range(1, 31):
            lists = rnd.sample(range(1, 41), rnd.choice((0, 1, 5, 40)))
            for part in (lists[::2], lists[1::2]):  # two workers
                rows.append(match_row(log_key(seen, n), f"o{batch}-{n}", batch, [log_key(asked, s) for s in part]))
            pairs |= {(f"o{batch}-{n}", f"s{s}"): batch for s in lists}
        for name, subscription in rnd.sample(sorted(pairs), 25):
            of_batch, n = (int(part) for part in name[1:].split("-"))
            del pairs[name, subscription]
            back = log_key(asked, int(subscription[1:]))
            rows.append(match_row(log_key(asked + of_batch, n), name, of_batch, [back], retracted=True))
        add_batch(hand_home, rows)
    found = exported(hand_home, tmp_path)
    assert sorted((row[0], row[2], int(row[4])) for row in found) == sorted((*k, batch) for k, batch in pairs.items())
    assert [row[4] for row in found] == sorted(row[4] for row in found)


@pytest.mark.parametrize("name", ["m.json", "m", "folder.csv", "nowhere/m.csv"])
def test_names_that_cannot_be(hand_home: Home, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError) as error:
        export_matches(hand_home, str(tmp_path / name))
    assert error.value.hint


def test_a_failure_leaves_the_file_that_was_there(hand_home: Home, tmp_path: Path) -> None:
    seen = add_file(hand_home, "objects", [thing(1, "o1")])
    add_batch(hand_home, [match_row(log_key(seen, 1), "o1", 0, [12345])])
    out = tmp_path / "m.csv"
    out.write_text("before")
    with pytest.raises(PstError, match="12345"):
        export_matches(hand_home, str(out))
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "m.csv"]
