"""Options without effect and invalid arguments are refused before any work; repeated options keep all values."""

import argparse
import json
from pathlib import Path

import pytest

from pststream.cli.arguments import build_parser
from pststream.cli.command import JoinedTexts
from pststream.tables.ledgers import step_seconds
from tests.commands import new_home, run_here


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("dead-letters replay --limit 10", "--limit does not apply to dead-letters replay"),
        ("plans list --out x.html", "--out does not apply to plans list"),
        ("plans show --planners grid", "--planners does not apply to plans show"),
        ("balance check --apply", "--apply does not apply to balance check"),
        ("balance history --page x.html", "--page does not apply to balance history"),
        ("balance retire --sigma 2", "--sigma does not apply to balance retire"),
        ("balance local --kinds topk", "Skype, whose partitioners make their plan, has no balancer"),
        ("balance global --kinds topk --apply", "pststream plan --kinds topk"),
        ("balance undo --kinds topk", "--kinds does not apply to balance undo"),
        ("balance check --kinds topk", "--kinds does not apply to balance check"),
        ("plan --kinds topk --planner grid", "planner 'grid' does not serve topk"),
        ("plan --kinds range,knn --planner prefix", "planner 'prefix' does not serve range,knn"),
        ("plan --kinds topk --to-version 3", "--to-version does not apply to plan --kinds topk"),
        ("plan --planner best", "invalid choice: 'best'"),
        ("plans compare --kinds topk --planners hash,grid", "planner 'grid' does not serve topk"),
        ("ingest requests x.jsonl --column lon=x", "--column does not apply to ingest requests"),
        ("ingest objects x.csv --column text=a --column text=b", "text is given twice"),
        ("ingest objects x.csv --constant object_id=x", "all rows would have the same id"),
        ("run landing --watch --strict", "--strict does not apply to run --watch"),
        ("ingest objects x.csv --time-unit us", "invalid choice: 'us'"),
        ("ingest objects --retry-rejects late --time-unit s", "--time-unit does not apply to ingest --retry-rejects"),
        ("ingest objects x.csv --constant ts=1767254400", "in milliseconds the number is before 1973"),
        ("withdraw --from 1767254400", "--from 1767254400: in milliseconds the number is before 1973"),
        ("export matches --out x.csv --since 202601130900", "or it spells a date"),
        ("rejects --reason lat", "unknown reason"),
        ("metrics --out .", "is a folder"),
        ("report --out .", "is a folder"),
        ("plans compare --out nowhere/x.html", "there is no folder nowhere"),
        ("match --max-objects abc", "'abc' is not a whole number"),
        ("generate objects --count 1 --out x.csv --seed -1", "-1 is less than 0"),
        ("generate objects --count 1 --out x.csv --kind q2", "--kind does not apply to generate objects"),
        ("generate objects --count 1 --out x.csv --lifetime 5", "--lifetime does not apply to generate objects"),
        ("generate requests --kind knn --drift-every 3 --count 1 --out x.jsonl", "drift_every is for q3, not knn"),
        ("bench run", "bench run: name a benchmark"),
        ("bench run kernel --workloads q1", "benchmark kernel has no workload q1"),
        ("bench run planners --workloads=", "benchmark planners has no workload ''\n  one or more of: q1, "),
        ("bench run planners --workloads=q1,", "benchmark planners has no workload ''"),
        (
            "bench run planner-latency --workloads=",
            "benchmark planner-latency has no workload ''\n  leave --workloads out",
        ),
        ("plan --timezone", "unrecognized arguments"),
    ],
)
def test_the_error_is_printed_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, error: str
) -> None:
    new_home(tmp_path / "home")
    (tmp_path / "landing").mkdir()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = run_here(*command.split(), "--home", "home", "--json")
    assert result.code == 2
    assert error in json.loads(result.out)["error"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_landing_folder_creates_no_home(tmp_path: Path) -> None:
    assert run_here("run", tmp_path / "typo", "--home", tmp_path / "home").code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_demo_does_not_overwrite_a_home(tmp_path: Path) -> None:
    new_home(tmp_path / "home")
    (tmp_path / "landing").mkdir()
    before = sorted(tmp_path.rglob("*"))
    result = run_here("demo", "--out", tmp_path)
    assert (result.code, "with other things in it" in result.err) == (2, True)
    assert sorted(tmp_path.rglob("*")) == before


def test_doctor_reports_settings_that_stop_every_other_command(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    for content, key in (("workers = 0", "workers"), ('timezone = "Nope"', "timezone"), ('sigma = "two"', "sigma")):
        (home.path / "pststream.toml").write_text(content + "\n")
        checks = {check["name"]: check for check in home.run("doctor", code=2)["checks"]}
        assert not checks["settings"]["ok"] and key in checks["settings"]["detail"]
        assert run_here("status", "--home", home.path).code == 2


def test_a_dry_run_replaces_no_other_file(tmp_path: Path) -> None:
    from pststream.base.errors import UsageError
    from pststream.pipeline.replan.proposal_file import Decision, Proposal, write_proposal

    (tmp_path / "posts.csv").write_text("object_id")
    with pytest.raises(UsageError, match="of another kind"):
        write_proposal(tmp_path / "posts.csv", Proposal("local", 1, "", Decision("", 1.0)))
    assert (tmp_path / "posts.csv").read_text() == "object_id"


def test_cpu_seconds_are_not_a_step() -> None:
    assert step_seconds([("match", 1.5), ("save", 0.5), ("dispatch_cpu", 7.0)]) == {"match": 1.5, "save": 0.5}
    assert step_seconds(None) == step_seconds([]) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], None),
        ([""], ""),
        (["objects=9d"], "objects=9d"),
        (["objects=9d", "matches=9d,rejects=2d"], "objects=9d,matches=9d,rejects=2d"),
        (["", "objects=9d"], "objects=9d"),
    ],
)
def test_values_of_a_repeated_option_are_joined(given: list[str], expected: str | None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action=JoinedTexts)
    arguments = [word for value in given for word in ("--keep", value)]
    assert parser.parse_args(arguments).keep == expected


@pytest.mark.parametrize("given", ["a.csv b.csv --column text=x+y", "--column text=x+y a.csv b.csv"])
def test_paths_may_follow_options(given: str) -> None:
    assert build_parser().parse_args(["ingest", "objects", *given.split()]).paths == ["a.csv", "b.csv"]
