"""A replay has the recorded matches and answers under any plan, measures what would have been, and changes nothing."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pststream.base import names
from pststream.reports.commands.comparisons import render_replay
from pststream.state import ledger_tables
from pststream.state.home import Home as State
from tests import worlds
from tests.commands import Home, ingest_world, new_home, run_here
from tests.damage import allow_changes, delete_rows
from tests.fuzz.cases import seeds
from tests.kill_and_rerun import table_of
from tests.oracles import twin
from tests.replayed import changing_home, ingest_and_match, replayed
from tests.unbalanced_homes import UnbalancedHome, assert_as_the_twin, home_for, written
from tests.worlds import WrittenWorld

SIDE = {
    "plan_versions", "objects", "discarded", "requests", "matches", "retractions", "objects_sent", "duplicates",
    "copies", "candidates", "subscriptions_stored", "throughput", "load_total", "max_seconds", "imbalance",
    "dispatch_seconds", "worker_seconds", "worker_objects", "worker_candidates", "worker_subscriptions",
}  # fmt: skip

OF_REGIONS = ("--kinds", names.REGION_KINDS)
"""Which plan `hash` and `location` make."""

of_changing_home = pytest.mark.slow
"""Marks the tests of a home that takes 4 seconds of CPU time to make."""

COUNTS = ("objects", "requests", "matches", "retractions")


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> tuple[UnbalancedHome, WrittenWorld]:
    return changing_home(tmp_path_factory.mktemp("changing"))


@pytest.fixture(scope="module")
def home(changed: tuple[UnbalancedHome, WrittenWorld]) -> UnbalancedHome:
    return changed[0]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> tuple[UnbalancedHome, WrittenWorld]:
    """Make a home with two batches, of which tests take copies."""
    folder = tmp_path_factory.mktemp("started")
    world = written(folder / "files", 43)
    home = home_for(folder / "home", world, "grid")
    for number in range(2):
        ingest_and_match(home, world, number)
    return home, world


def copy_of(home: Home, path: Path) -> UnbalancedHome:
    return UnbalancedHome(shutil.copytree(home.path, path))


def committed_at(home: Home) -> dict[int, int]:
    """Return the version of `matches` that each batch made, from the log of the table."""
    log = Path(table_of(home, names.MATCHES).table_uri.removeprefix("file://")) / "_delta_log"
    versions = {}
    for file in log.glob("*.json"):
        for line in file.read_text().splitlines():
            txn = json.loads(line).get("txn", {})
            if txn.get("appId") == "match":
                versions[txn["version"]] = int(file.stem)
    return versions


def rows_of(home: Home, first: int, last: int) -> list[tuple[object, ...]]:
    """Return the pairs that batches recorded, with the ids of their subscriptions."""
    asked = table_of(home, "requests").to_pyarrow_table(columns=["request_key", "subscription_id"]).to_pylist()
    ids = {row["request_key"]: row["subscription_id"] for row in asked}
    return sorted(
        (row["object_id"], ids[key], row["batch_id"], row["retracted"])
        for row in table_of(home, "matches").to_pyarrow_table().to_pylist()
        if first <= row["batch_id"] <= last
        for key in row["subscription_keys"]
    )


@of_changing_home
def test_the_home_is_exact_and_has_what_makes_a_replay_hard(
    changed: tuple[UnbalancedHome, WrittenWorld],
) -> None:
    home, world = changed
    assert_as_the_twin(home, world)
    plans = table_of(home, "plans").to_pyarrow_table().to_pylist()
    assert len(plans) == 5 and {row["retiring_version"] for row in plans} == {None, 1}
    batches = table_of(home, "batches").to_pyarrow_table().to_pylist()
    assert sum(row["retractions"] or 0 for row in batches) > 0
    assert len({row["batch_id"] for row in batches}) == 6


@of_changing_home
@pytest.mark.parametrize(("first", "last"), [(1, 6), (2, 4), (5, 5)])
def test_any_range_of_batches_under_the_plan_in_force(home: UnbalancedHome, first: int, last: int) -> None:
    versions = committed_at(home)
    after = versions[first - 1] if first > 1 else 0
    document = replayed(home, "--from-version", str(after), "--to-version", str(versions[last]))
    assert (document["first_batch"], document["last_batch"], document["batches"]) == (first, last, last - first + 1)
    assert document["matches_equal"] and document["differences"] == []
    assert document["plan"] == {"plan_version": 5, "planner": "frequency", "workers": 3, "units": 3}
    assert {name: document["was"][name] for name in COUNTS} == {name: document["would_be"][name] for name in COUNTS}
    assert document["would_be"]["plan_versions"] == [5]
    assert len(document["would_be"]["worker_seconds"]) == 3


@of_changing_home
@pytest.mark.parametrize("planner", ["hybrid", "text", "dkm_sks"])
def test_planners_that_share_by_place_by_object_and_by_subscription(home: UnbalancedHome, planner: str) -> None:
    document = replayed(home, "--last", "1", "--planner", planner, *OF_REGIONS)
    assert document["matches_equal"]
    assert document["plan"]["planner"] == planner and document["plan"]["plan_version"] is None
    assert document["would_be"]["objects_sent"] > 0
    # The setting `workers` is 4, and the last plan has 3.
    assert document["plan"]["workers"] == len(document["was"]["worker_seconds"]) == 3


@of_changing_home
def test_a_new_plan_has_the_options_of_its_planner(home: UnbalancedHome) -> None:
    document = replayed(home, "--last", "1", "--planner", "grid", "--option", "blocks=1")
    assert document["matches_equal"]
    assert sum(seconds > 0 for seconds in document["would_be"]["worker_seconds"]) == 1


@of_changing_home
@pytest.mark.parametrize("version", [1, 4])
def test_an_older_plan(home: UnbalancedHome, version: int) -> None:
    document = replayed(home, "--last", "3", "--plan", str(version))
    assert document["matches_equal"] and document["plan"]["plan_version"] == version


@pytest.mark.slow
def test_a_replay_counts_what_really_happens(
    started: tuple[UnbalancedHome, WrittenWorld], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the home makes the plan before the batch, and runs it: the loads are those that the replay counts."""
    monkeypatch.setenv("PSTSTREAM_ENGINE", "local")  # Spark's processes have different Bloom filters
    world, home = started[1], copy_of(started[0], tmp_path / "home")
    home.run("maintain")
    home.ingest("objects", [world.objects[2]])
    home.ingest("requests", [world.requests[2]])
    copy = copy_of(home, tmp_path / "copy")
    home.match()
    document = replayed(home, "--last", "1", "--planner", "frequency", "--out", tmp_path / "out")
    copy.run("plan", "--planner", "frequency")
    copy.match()
    columns = ["worker", "objects", "subscriptions", "candidates", "matches"]
    loads = [row for row in table_of(copy, "unit_loads").to_pyarrow_table().to_pylist() if row["batch_id"] == 3]
    happened = sorted(tuple(row[name] for name in columns) for row in loads if row["unit"] == -1)
    written_rows = pa_csv.read_csv(tmp_path / "out" / "loads.csv").to_pylist()
    would_be = [row for row in written_rows if row["side"] == "would_be"]
    assert [tuple(row[name] for name in columns) for row in would_be] == happened
    (batch,) = [row for row in copy.run("status")["batches"] if row["batch_id"] == 3]
    assert document["would_be"]["discarded"] == batch["discarded"]


@pytest.mark.slow
@seeds(3)
def test_random_worlds(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    world = worlds.write_world(tmp_path, worlds.random_world(100 + seed, objects=120, requests=100), seed)
    settings = {"planner": rnd.choice(list(names.PLANNERS)), "workers": 3, "max_objects": rnd.choice((15, 40))}
    home = new_home(tmp_path / "home", lateness_seconds=world.lateness_seconds, merge_files=1, **settings)
    ingest_world(home, world, objects_first=bool(seed % 2))
    batches = len(home.match()["batches"])
    assert set(home.exported()) == twin.outcome_of(world.log, world.lateness_seconds).matches
    first, last = sorted(rnd.choices(range(batches + 1), k=2))
    last = max(last, first + 1) if first < batches else first
    first = min(first, last - 1)
    planner = rnd.choice(list(names.PLANNERS))
    document = replayed(
        home, "--from-version", str(first), "--to-version", str(last), "--planner", planner, *OF_REGIONS
    )
    assert document["matches_equal"] and document["batches"] == last - first


@of_changing_home
def test_documents_files_and_page(home: UnbalancedHome, tmp_path: Path) -> None:
    out, page = tmp_path / "out", tmp_path / "page.html"
    document = replayed(home, "--last", "3", "--planner", "hybrid", "--out", out, "--page", page)
    assert set(document) == {
        "batches", "first_batch", "last_batch", "plan", "was", "would_be", "matches_equal", "differences", "out",
        "seconds",
    }  # fmt: skip
    assert set(document["was"]) == set(document["would_be"]) == SIDE
    assert json.loads((out / "replay.json").read_text()) == document
    assert sorted(path.name for path in out.iterdir()) == ["loads.csv", "matches.parquet", "replay.json"]
    rows = pq.read_table(out / "matches.parquet").to_pylist()
    pairs = [tuple(row[name] for name in ("object_id", "subscription_id", "batch_id", "retracted")) for row in rows]
    assert sorted(pairs) == rows_of(home, 4, 6) != []
    loads = pa_csv.read_csv(out / "loads.csv").to_pylist()
    for side in ("was", "would_be"):
        assert sum(row["objects"] for row in loads if row["side"] == side) == document[side]["objects_sent"]
    assert "Replayed batches 4 to 6" in page.read_text() and "hybrid" in page.read_text()
    shown = render_replay(document)
    assert "batches 4 to 6" in shown and "the matches are the recorded ones" in shown and "slowest CPU s" in shown


@of_changing_home
def test_recorded_matches_that_differ_are_reported(home: UnbalancedHome, tmp_path: Path) -> None:
    home = copy_of(home, tmp_path / "home")
    table = table_of(home, names.MATCHES)
    rows = [row for row in table.to_pyarrow_table().to_pylist() if row["batch_id"] == 6 and not row["retracted"]]
    gone, doubled = rows[0], rows[1]
    asked = table_of(home, "requests").to_pyarrow_table(columns=["request_key", "subscription_id"]).to_pylist()
    ids = {row["request_key"]: row["subscription_id"] for row in asked}
    where = f"batch_id = 6 AND object_key = {gone['object_key']} AND worker = {gone['worker']} AND NOT retracted"
    allow_changes(State(home.path).table(names.MATCHES)).delete(where)
    _append(home, doubled)
    document = replayed(home, "--last", "2", code=1)
    assert not document["matches_equal"]
    differences = {(one["object_id"], one["subscription_id"], one["only_in"]) for one in document["differences"]}
    assert differences == {
        *((gone["object_id"], ids[key], "replayed") for key in gone["subscription_keys"]),
        *((doubled["object_id"], ids[key], "recorded") for key in doubled["subscription_keys"]),
    }
    shown = render_replay(document)
    assert "THE MATCHES DIFFER" in shown
    assert f"object {gone['object_id']}, subscription {ids[gone['subscription_keys'][0]]}" in shown


def _append(home: Home, row: dict[str, object]) -> None:
    ledger_tables.append(State(home.path), names.MATCHES, [row])


@pytest.mark.slow
def test_a_proposal_is_tried_before_it_is_applied(
    started: tuple[UnbalancedHome, WrittenWorld], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PSTSTREAM_ENGINE", "local")  # Spark's processes have different Bloom filters
    world, home = started[1], copy_of(started[0], tmp_path / "home")
    proposal = tmp_path / "move.npz"
    assert home.run("balance", "local", "--dry-run", "--proposal", proposal)["moves"]
    document = replayed(home, "--last", "2", "--proposal", proposal)
    assert document["matches_equal"] and document["plan"]["plan_version"] is None
    applied = home.run("balance", "local", "--apply", "--proposal", proposal)
    again = replayed(home, "--last", "2")
    assert again["plan"]["plan_version"] == applied["plan_version_after"]
    for name in ("objects_sent", "candidates", "subscriptions_stored", "worker_objects"):
        assert again["would_be"][name] == document["would_be"][name]
    other = home_for(tmp_path / "other", world, "hybrid")
    ingest_and_match(other, world, 0)
    assert "another home" in replayed(other, "--last", "1", "--proposal", proposal, code=2)["error"]


@of_changing_home
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("--from-version 5 --to-version 2", "--from-version 5 is not before --to-version 2"),
        ("--from-version 3 --to-version 3", "is not before"),
        ("--from-version 0 --to-version 99", "version 99 of matches does not exist"),
        ("--from-version 4 --to-version 5", "no batch was committed to matches after version 4"),
        ("--from-version 1", "give --from-version and --to-version, or --last"),
        ("--last 2 --from-version 1 --to-version 2", "or --last"),
        ("", "or --last"),
        ("--last 0", "0 is less than 1"),
        ("--from-version -1 --to-version 2", "-1 is less than 0"),
        ("--last 1 --planner magic", "invalid choice: 'magic'"),
        ("--last 1 --planner grid --option magic=1", "magic"),
        ("--last 1 --plan 1 --option blocks=1", "--option is one of --planner"),
        ("--last 1 --plan 77", "plan 77 does not exist"),
        ("--last 1 --plan 1 --planner grid", "not allowed with argument"),
        ("--last 1 --proposal nowhere.npz", "nowhere.npz: is not there"),
    ],
)
def test_wrong_arguments_are_refused(home: UnbalancedHome, arguments: str, error: str) -> None:
    assert error in replayed(home, *arguments.split(), code=2)["error"]


@of_changing_home
def test_results_do_not_go_into_the_home(home: UnbalancedHome, tmp_path: Path) -> None:
    assert "is in the home" in replayed(home, "--last", "1", "--out", home.path / "out", code=2)["error"]
    (tmp_path / "file").write_text("")
    assert "is not a folder" in replayed(home, "--last", "1", "--out", tmp_path / "file", code=2)["error"]


@pytest.mark.deep
def test_a_home_without_batches_or_with_an_unfinished_one(
    started: tuple[UnbalancedHome, WrittenWorld], tmp_path: Path
) -> None:
    world, home = started[1], copy_of(started[0], tmp_path / "home")
    empty = home_for(tmp_path / "empty", world, "grid")
    assert "has no finished batch" in empty.run("replay", "--last", "1", code=2)["error"]
    home.ingest("objects", [world.objects[2]])
    home.crash("match.matched", "match")
    assert replayed(home, "--last", "5")["batches"] == 2
    unfinished = replayed(home, "--from-version", "0", "--to-version", "3", code=1)
    assert "batch 3 is unfinished" in unfinished["error"]


def test_batches_whose_matches_were_removed_are_refused_with_those_that_can_be_replayed(
    started: tuple[UnbalancedHome, WrittenWorld], tmp_path: Path
) -> None:
    home = copy_of(started[0], tmp_path / "home")
    assert replayed(home, "--last", "2")["matches_equal"]
    expired = home.run("maintain", "--keep", "objects=4000d", "--keep", "matches=1d")["rows_expired"]
    assert set(expired) == {"matches"}
    refused = replayed(home, "--last", "2", code=2)["error"]
    assert "`keep` has removed some of" in refused
    assert "at most --last" in refused or "run: pststream match" in refused


@pytest.mark.slow
def test_versions_that_maintain_has_removed_from_the_log(
    started: tuple[UnbalancedHome, WrittenWorld], tmp_path: Path
) -> None:
    world, home = started[1], copy_of(started[0], tmp_path / "home")
    table: DeltaTable = table_of(home, names.MATCHES)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    table.create_checkpoint()
    ingest_and_match(home, world, 2)
    table_of(home, names.MATCHES).cleanup_metadata()
    refused = replayed(home, "--from-version", "1", "--to-version", "4", code=2)
    assert "version 1 of matches is no longer in the log" in refused["error"]
    assert "versions from 3 to 4 can be given" in refused["error"]
    assert replayed(home, "--from-version", "3", "--to-version", "4")["first_batch"] == 3
    assert replayed(home, "--last", "2")["first_batch"] == 2


@of_changing_home
def test_the_home_may_be_read_only(home: UnbalancedHome, tmp_path: Path) -> None:
    copy = copy_of(home, tmp_path / "read only ü")
    for path in [copy.path, *copy.path.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        assert replayed(copy, "--last", "3", "--planner", "kd_tree")["matches_equal"]
    finally:
        for path in [copy.path, *copy.path.rglob("*")]:
            path.chmod(0o700)


def test_help_says_what_a_version_is() -> None:
    text = " ".join(run_here("replay", "--help").out.split())
    assert "committed after this version of the Delta table `matches`" in text and "changes nothing" in text


@pytest.mark.parametrize("last", ["2", "99"])
def test_a_replay_has_the_recorded_answers(home_with_answers: Home, last: str) -> None:
    document = replayed(home_with_answers, "--last", last, "--planner", "hybrid")
    assert document["matches_equal"] and document["answers_equal"] is True


@pytest.mark.parametrize("planner", ["keyword_first"])
def test_a_replay_under_a_plan_of_topk_has_the_recorded_answers(
    home_with_answers: Home, tmp_path: Path, planner: str
) -> None:
    page = tmp_path / "page.html"
    document = replayed(home_with_answers, "--last", "5", "--planner", planner, "--page", page)
    assert document["matches_equal"] and document["answers_equal"] is True
    regions, topk = document["plan"], document["topk"]
    assert regions["plan_version"] is None and document["would_be"]["plan_versions"] == []
    assert (topk["planner"], len(topk["unit_loads"])) == (planner, regions["workers"])
    assert 0 < topk["measured_batches"] < 5 and sum(topk["unit_objects"]) > 0 and sum(topk["unit_subscriptions"]) > 0
    assert f"a new plan, topk: {planner}" in render_replay(document)
    assert f"A new plan by {planner}" in page.read_text() and "Unit 0" in page.read_text()


@pytest.mark.deep
def test_the_kinds_say_which_plan_a_planner_makes(home_with_answers: Home) -> None:
    last = ("--last", "2", "--planner", "hash")
    regions, topk = replayed(home_with_answers, *last, "--kinds", "range,knn"), replayed(home_with_answers, *last)
    assert regions["plan"]["planner"] == "hash" and "topk" not in regions
    assert topk["plan"]["planner"] != "hash" and topk["topk"]["planner"] == "hash"
    for words, why in (
        (("--last", "1", "--planner", "prefix"), "made after the first of the batches"),
        (("--last", "2", "--planner", "prefix", "--kinds", "range,knn"), "'prefix' does not serve range,knn"),
        (("--last", "2", "--kinds", "topk"), "--kinds says which plan --planner makes"),
        (("--last", "2", "--option", "first=1"), "--option is one of --planner"),
        (("--last", "2", "--planner", "spatial_first", "--option", "blocks=1"), "blocks"),
    ):
        assert why in replayed(home_with_answers, *words, code=2)["error"]


def test_recorded_answers_that_differ_are_reported(home_with_answers: Home, tmp_path: Path) -> None:
    shutil.copytree(home_with_answers.path, tmp_path / "home")
    home = Home(tmp_path / "home")
    answered = home.run("answers")["answers"]
    score = next(row["score"] for row in answered if row["score"] is not None)
    delete_rows(State(home.path), names.ANSWER_LOG, f"part = 'change' AND abs(value + {score}) < 1e-6")
    document = replayed(home, "--last", "1", code=1)
    assert document["matches_equal"] and document["answers_equal"] is False


def test_answers_of_rows_that_were_erased_are_not_compared(home_with_answers: Home, tmp_path: Path) -> None:
    shutil.copytree(home_with_answers.path, tmp_path / "home")
    home = Home(tmp_path / "home")
    row = home.run("answers")["answers"][0]
    home.run("erase", "--subscription-id", row["subscription_id"])
    assert replayed(home, "--last", "1")["answers_equal"] is None


def test_a_restored_backup_goes_on(home_with_answers: Home, tmp_path: Path) -> None:
    """Both homes get the same object; the states of the copy are built from its snapshots and its log."""
    shutil.copytree(home_with_answers.path, tmp_path / "home")
    home, copy = Home(tmp_path / "home"), Home(tmp_path / "copy")
    home.run("backup", "--out", copy.path)
    more = tmp_path / "more.jsonl"
    newest = max(row["as_of"] for row in home.run("answers")["answers"])
    more.write_text(json.dumps({"object_id": "new", "ts": newest, "lon": 0.0, "lat": 0.0, "text": "coffee tea"}) + "\n")
    for one in (home, copy):
        one.ingest("objects", [more])
        one.match()
        assert one.run("check")["success"]
    assert exported(home, "answers") == exported(copy, "answers")
    assert exported(home, "changes") == exported(copy, "changes")


def exported(home: Home, what: str) -> list[dict[str, Any]]:
    out = home.path.parent / f"{home.path.name}-{what}.parquet"
    home.run("export", what, "--out", out)
    rows: list[dict[str, Any]] = pq.read_table(out).to_pylist()
    return rows
