"""A home of another format or with other tables is refused; a made-up step upgrades one, however it is disturbed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pststream.base import names
from pststream.base.errors import HomeError
from pststream.cli.doctor import check_settings
from pststream.settings import FILE
from pststream.state import home as state
from pststream.state.home import FORMAT, STEPS, TOO_OLD, Home, digest_of_tables, upgrade
from pststream.state.tables import TABLES, Column
from pststream.tables.open_tables import open_table
from tests.commands import run_here
from tests.flushed_disk import assert_cured

OLDER = FORMAT - 1
"""A made-up format, whose homes have no table `vocabulary`."""

MARKS = {
    "a version before 0.1.0": {"format": 11},
    "other tables": {"home_format": FORMAT, "tables": "0" * 64},
    "no digest of the tables": {"home_format": FORMAT},
}


class Killed(Exception):
    """Raised in place of the end of the process."""


def mark_of(home: Home) -> Path:
    return Path(home.path, names.HOME_MARK)


def add_table(home: Home) -> None:
    """The made-up step."""
    home.create_tables([names.VOCABULARY])


@pytest.fixture
def older(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home of the format before, which the made-up step upgrades."""
    shutil.rmtree(hand_home.table(names.VOCABULARY))
    content = json.loads(mark_of(hand_home).read_text("utf-8"))
    mark_of(hand_home).write_text(json.dumps(content | {"home_format": OLDER, "tables": "0" * 64}), "utf-8")
    monkeypatch.setitem(STEPS, OLDER, add_table)
    return hand_home


def test_a_new_home_has_the_format_and_the_digest_of_its_tables(hand_home: Home) -> None:
    content = json.loads(mark_of(hand_home).read_text("utf-8"))
    assert (content["home_format"], content["tables"]) == (1, digest_of_tables())
    assert upgrade(hand_home.check()) == {"format_before": 1, "format": 1}


@pytest.mark.parametrize("command", ["status", "upgrade"])
@pytest.mark.parametrize("mark", MARKS)
def test_a_home_of_a_version_before_the_first_release_is_refused(hand_home: Home, mark: str, command: str) -> None:
    content = json.loads(mark_of(hand_home).read_text("utf-8"))
    kept = {name: value for name, value in content.items() if name not in ("home_format", "tables")}
    mark_of(hand_home).write_text(json.dumps(kept | MARKS[mark]), "utf-8")
    before = mark_of(hand_home).read_bytes()
    Path(hand_home.path, FILE).write_text('mapping = "greedy"\n', "utf-8")  # a setting that this version does not know
    result = run_here(command, "--home", hand_home.path)
    assert result.code == 2 and TOO_OLD in result.err
    assert TOO_OLD in check_settings(hand_home.path).detail
    assert mark_of(hand_home).read_bytes() == before


def test_a_format_without_a_step_cannot_be_upgraded(older: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(STEPS, OLDER)
    with pytest.raises(HomeError, match=TOO_OLD):
        upgrade(older)


@pytest.mark.parametrize("command", ["status", "upgrade"])
def test_a_home_of_a_newer_version_is_refused(hand_home: Home, command: str) -> None:
    content = json.loads(mark_of(hand_home).read_text("utf-8"))
    mark_of(hand_home).write_text(json.dumps(content | {"home_format": FORMAT + 1}), "utf-8")
    result = run_here(command, "--home", hand_home.path)
    assert result.code == 2 and "newer version" in result.err


def test_the_digest_differs_with_what_is_stored_and_not_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TABLES[names.VOCABULARY]
    first, *others = table.columns
    changed = {
        "name": replace(table, columns=(first._replace(name="other"), *others)),
        "type": replace(table, columns=(first._replace(type=pa.int32()), *others)),
        "nulls": replace(table, columns=(first._replace(nullable=True), *others)),
        "column": replace(table, columns=(*table.columns, Column("more", pa.string(), "more"))),
        "partitions": replace(table, partitions=("plan_version",)),
        "properties": replace(table, append_only=True),
        "retention": replace(table, writer="spark"),
    }
    compute = digest_of_tables.__wrapped__
    digests = {"declared": compute()}
    for what, other in changed.items():
        monkeypatch.setattr(state, "TABLES", TABLES | {names.VOCABULARY: other})
        digests[what] = compute()
    assert len(set(digests.values())) == len(digests)
    monkeypatch.setattr(state, "TABLES", TABLES | {names.VOCABULARY: replace(table, meaning="words")})
    assert compute() == digests["declared"] == digest_of_tables()


def test_an_older_home_names_the_command_that_upgrades_it(older: Home) -> None:
    with pytest.raises(HomeError, match="older version(?s:.*)pststream upgrade --home"):
        older.check()
    result = run_here("upgrade", "--home", older.path)
    assert (result.code, result.out) == (0, f"format {OLDER} -> {FORMAT}\n")
    assert open_table(older.check().table(names.VOCABULARY)).version() == 0
    assert upgrade(older) == {"format_before": FORMAT, "format": FORMAT}


def test_killed_between_step_and_mark_and_run_again(older: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(point: str) -> None:
        raise Killed(point)

    with monkeypatch.context() as patch, pytest.raises(Killed, match=r"upgrade\.stepped"):
        patch.setattr(state, "crash_point", die)
        upgrade(older)
    assert json.loads(mark_of(older).read_text("utf-8"))["home_format"] == OLDER
    assert upgrade(older) == {"format_before": OLDER, "format": FORMAT}
    assert older.check().answer_buckets > 0


def test_a_power_cut_is_cured_by_a_second_run(older: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_cured(Path(older.path), 3, lambda: upgrade(older), older.check, monkeypatch)


def test_the_number_of_buckets_is_that_of_the_mark(tmp_path: Path) -> None:
    home = Home(tmp_path / "more")
    home.init(answer_buckets=3)
    assert home.answer_buckets == 3
