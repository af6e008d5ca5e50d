"""Two senders, each with a folder for requests, use the same ids: neither changes, takes or sees what the other has."""

import json
from pathlib import Path
from typing import Any

import pytest

from pststream.base.errors import UsageError
from pststream.pipeline.ingest.ingest import ingest
from pststream.reports.commands.explain import explain
from pststream.reports.commands.listings import list_answers
from pststream.reports.pages import airflow_views
from pststream.settings import load_settings
from pststream.state.home import Home as State
from tests import worlds
from tests.commands import KILLED, Home, new_home, run_here
from tests.kill_and_rerun import accepted_in_order, table_of

pytestmark = pytest.mark.e2e

START = worlds.moment(-1)
HEAD = {"op": "insert", "keywords": "tea", "created_at": START}
TEA = HEAD | {"subscription_id": "s", "bbox": [0, 0, 5, 5]}
NEAR = HEAD | {"subscription_id": "near", "kind": "knn", "point": {"lon": 1.0, "lat": 2.0}, "k": 1, "keywords": "*"}
OBJECTS = [
    {"object_id": f"o{n}", "ts": worlds.moment(n), "lon": 1.0, "lat": 2.0, "text": text}
    for n, text in enumerate(("tea", "cake", "tea and cake"))
]
REQUESTS: dict[str, worlds.Rows] = {
    "ada/1.jsonl": [TEA, NEAR, {"op": "delete", "subscription_id": "only-bobs", "at": worlds.moment(1)}],
    "bob/deep/1.jsonl": [
        *(TEA | {"keywords": "cake"}, NEAR | {"keywords": "cake"}, TEA | {"subscription_id": "only-bobs"}),
        TEA | {"subscription_id": "b1", "owner": "bob"},
        TEA | {"subscription_id": "b2", "owner": "ada"},
        {"op": "delete", "subscription_id": "s", "at": worlds.moment(1), "owner": "ada"},
    ],
    "own.jsonl": [TEA | {"keywords": "tea cake"}, TEA | {"subscription_id": "n1", "owner": ""}],
}


def landing(folder: Path) -> Path:
    for name, rows in REQUESTS.items():
        path = folder / "requests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        worlds.write_rows(path, rows)
    (folder / "objects").mkdir()
    worlds.write_rows(folder / "objects" / "o.jsonl", OBJECTS)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Run the main job on a landing folder, with a sink in a folder and one that refuses everything."""
    folder = tmp_path_factory.mktemp("owners")
    home = new_home(folder / "home")
    home.add_sink("files", kind="file", target=str(folder / "delivered"))
    home.run("run", landing(folder / "landing"))
    return home


def bodies(home: Home) -> list[dict[str, Any]]:
    files = sorted((home.path.parent / "delivered").rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def test_ids_belong_to_the_folder(home: Home) -> None:
    rejects = {(row["reason"], row["field"], row["raw"]) for row in home.run("rejects")["rejects"]}
    assert rejects == {("not_yours", "owner", "ada"), ("unknown_subscription", "subscription_id", "only-bobs")}
    accepted = accepted_in_order(home, "requests", "owner", "subscription_id", "op", "payload")
    inserted = {"ada": ["s", "near"], "bob": ["s", "near", "only-bobs", "b1"], "": ["s", "n1"]}
    assert sorted(accepted) == sorted((owner, one, "insert", None) for owner, ids in inserted.items() for one in ids)


def test_matches_messages_and_answers_name_the_owner(home: Home) -> None:
    out = home.path.parent / "matches.jsonl"
    home.run("export", "matches", "--out", out)
    matches = {(row["owner"], row["subscription_id"], row["object_id"]) for row in read_lines(out)}
    of_s = {("ada", "o0"), ("ada", "o2"), ("bob", "o1"), ("bob", "o2"), ("", "o2")}
    assert {(owner, thing) for owner, one, thing in matches if one == "s"} == of_s
    sent = [(body["subscription"], body["object"]["object_id"], body["id"]) for body in bodies(home)]
    delivered = {(one["owner"], one["subscription_id"], thing) for one, thing, _ in sent}
    assert matches <= delivered and len({body_id for *_, body_id in sent}) == len(sent), "message ids are unique"
    answers = {(row["owner"], row["object_id"]) for row in home.run("answers")["answers"]}
    assert answers == {("ada", "o2"), ("bob", "o2")}
    home.run("export", "changes", "--out", out)
    assert {row["owner"] for row in read_lines(out)} == {"ada", "bob"}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("command", [("explain", "o1", "s"), ("answers", "near"), ("erase", "--subscription-id", "s")])
def test_an_id_of_several_owners_is_named_with_its_owner(home: Home, command: tuple[str, ...]) -> None:
    result = run_here(*command, "--home", home.path)
    owners = "'', 'ada', 'bob'" if "s" in command else "'ada', 'bob'"
    assert result.code == 2 and f"several owners have this id: {owners}" in result.err, result.err


def test_the_owner_is_chosen_or_the_only_one(home: Home) -> None:
    state = {owner: home.run("explain", "o1", "s", "--owner", owner)["state"] for owner in ("", "ada", "bob", "eve")}
    assert state == {"": "not matched", "ada": "not matched", "bob": "matched", "eve": "not matched"}
    assert home.run("explain", "o1", "s", "--owner", "eve")["condition"] == "subscription_unknown"
    assert home.run("explain", "o0", "only-bobs")["owner"] == "bob"
    assert [row["owner"] for row in home.run("answers", "near", "--owner", "ada")["answers"]] == ["ada"]
    assert [row["owner"] for row in home.run("answers", "--owner", "bob")["answers"]] == ["bob"]
    opened = State(home.path).check()
    assert explain(opened, "o1", "s", owner="bob")["state"] == "matched"
    assert list_answers(opened, "near", 9, owner="ada")["complete"]
    with pytest.raises(UsageError, match="'ada', 'bob'"):
        list_answers(opened, "near", 9)


def test_pages_name_the_owner(home: Home) -> None:
    path = State(home.path).path
    for several in (airflow_views.subscription_page(path, "s"), airflow_views.object_page(path, "o2", "s")):
        assert several.status == 404 and "several owners have this id" in several.text
    found = airflow_views.subscription_page(path, "s", "bob")
    assert found.status == 200 and "s of bob" in found.text
    assert "object?id=o1&amp;subscription=s&amp;owner=bob" in found.text and "object?id=o0" not in found.text
    assert airflow_views.object_page(path, "o1", "s", "bob").status == 200
    assert "subscription?id=s&amp;owner=ada" in airflow_views.object_page(path, "o0").text


def test_only_the_subscription_of_the_owner_is_erased(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    home.run("run", landing(tmp_path / "landing"))
    assert home.run("erase", "--subscription-id", "s", "--owner", "bob")["rows"]["requests"] == 1
    assert {(owner, one) for owner, one in accepted_in_order(home, "requests", "owner", "subscription_id")} == {
        *(("ada", "s"), ("ada", "near"), ("bob", "near"), ("bob", "only-bobs"), ("bob", "b1"), ("", "s"), ("", "n1"))
    }
    home.run("erase", "--subscription-id", "only-bobs")
    assert home.run("explain", "o0", "only-bobs")["condition"] == "subscription_unknown"
    home.run("check", "--all")


def test_the_owner_of_a_command_stays_with_the_file(tmp_path: Path) -> None:
    """A killed ingest is finished, and a quarantined file released, for the owner who was named first."""
    home = new_home(tmp_path / "home", gate_min_rows=1, gate_bad_share=0.4)
    first = worlds.write_rows(tmp_path / "first.jsonl", [TEA])
    assert home.crash("ingest.started", "ingest", "requests", first, "--owner", "ada").code == KILLED
    for staged in (home.path / "staging").iterdir():
        staged.unlink()
    home.ingest(
        "requests", [worlds.write_rows(tmp_path / "second.jsonl", [TEA | {"payload": {"n": 2}}])], "--owner", "bob"
    )
    bad = worlds.write_rows(tmp_path / "bad.jsonl", [TEA, TEA | {"keywords": "("}])
    (hold,) = home.ingest("requests", [bad], "--owner", "eve")["quarantined"]
    home.run("quarantine", "release", str(hold["hold_id"]))
    assert [owner for (owner,) in accepted_in_order(home, "requests", "owner")] == ["ada", "bob", "eve"]


def test_an_invalid_owner_is_named(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    file = worlds.write_rows(tmp_path / "r.jsonl", [TEA])
    for owner in ("a\nb", "a\udcff", "é" * 128):
        refused = run_here("ingest", "requests", file, "--owner", owner, "--home", home.path)
        assert refused.code == 2 and "the owner " in refused.err
    assert run_here("ingest", "objects", file, "--owner", "ada", "--home", home.path).code == 2
    state = State(home.path)
    with pytest.raises(UsageError, match="objects have no owner"):
        ingest(state, load_settings(home.path), "objects", [str(file)], owner="ada")
    folder = tmp_path / "landing" / "requests" / "a\tb"
    folder.mkdir(parents=True)
    worlds.write_rows(folder / "r.jsonl", [TEA])
    worlds.write_rows(folder.parent / "good.jsonl", [TEA | {"payload": {"n": 2}}])
    done = home.run("run", folder.parents[1])["ingest"]["requests"]
    assert done["accepted"] == 1 and "the owner 'a\\tb' has control characters" in done["quarantined"][0]["reasons"][0]
    assert table_of(home, "quarantine").to_pyarrow_table().num_rows == 1
