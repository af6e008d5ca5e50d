"""Tests of the chaos plan (a function of the seed), of a run with few faults, and of the comparison."""

from collections import Counter
from pathlib import Path

import pytest

from pststream.base import names
from pststream.state.home import Home as Tables
from pststream.tables.delta_tables import read_table
from tests.chaos.command_faults import killed_withdrawal, power_cut
from tests.chaos.compare import DELIVERY_ERRORS, ERRORS, compare, is_right
from tests.chaos.environment import chaos_environment
from tests.chaos.hostile_faults import hostile_row, killed_erasure, killed_readers, oversized
from tests.chaos.plan import (
    COMMAND_STEPS,
    ERASE_STEPS,
    STEPS,
    WATCHER_FAULTS,
    WITHDRAW_STEPS,
    Episode,
    Fault,
    counts,
    plan,
)
from tests.chaos.run import SEVERAL, quiet, run, without_effect
from tests.chaos.watcher_faults import FAILED

FAULTS, CUTS = 6, 8


def test_the_plan_is_that_of_its_seed() -> None:
    assert plan(7, 296) == plan(7, 296) != plan(8, 296)
    assert sum(counts(plan(7, 296)).values()) == 296
    assert sum(counts(plan(7, FAULTS)).values()) == FAULTS
    kinds = {"driver_killed", "jvm_killed", "driver_killed_at_step", "command_killed", "airflow_job_killed"}
    commands = {"data_file_corrupted", "power_cut", "withdrawal_killed", "erasure_killed"}
    hostile = {"batch_killed_by_row", "readers_killed_by_files", "file_does_not_fit"}
    assert set(counts(plan(7, 296))) == {*kinds, *WATCHER_FAULTS, *commands, *hostile, "s3_answer_bad"}
    faults = [fault for episode in plan(7, 296) for fault in episode.faults]
    assert len({fault.seed for fault in faults}) == len(faults)


def test_the_steps_are_those_of_the_product() -> None:
    root = Path(__file__).parents[2] / "pststream"
    text = "".join(path.read_text("utf-8") for path in root.rglob("*.py")).replace("{kind}", "objects")
    text = text.replace("{cause}", "erase")
    for step in {*STEPS, *COMMAND_STEPS, *WITHDRAW_STEPS, *ERASE_STEPS} - {"ingest.requests_written"}:
        assert f'"{step}"' in text, step
    assert f'"{FAILED} (' in text


def test_comparison_reports_errors() -> None:
    sink = dict.fromkeys(DELIVERY_ERRORS, 0)
    summary = dict.fromkeys(ERRORS, 0) | {"deliveries": {"files": sink}, "without_effect": []}
    assert is_right(summary)
    assert not any(is_right(summary | {name: count}) for name in ERRORS for count in (1, -1))
    assert not is_right(summary | {"without_effect": ["jvm_killed"]})
    assert not any(is_right(summary | {"deliveries": {"files": sink | {name: 1}}}) for name in DELIVERY_ERRORS)


def test_faults_that_never_take_effect_are_reported() -> None:
    injected = Counter(disk_full=1)
    assert without_effect({"disk_full": SEVERAL, "jvm_killed": SEVERAL - 1}, injected) == []
    assert without_effect({"disk_full": SEVERAL, "jvm_killed": SEVERAL}, injected) == ["jvm_killed"]


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.chaos
@pytest.mark.timeout(1500)
def test_a_few_faults_change_nothing(tmp_path: Path) -> None:
    summary = run(tmp_path / "chaos", seed=7, faults=FAULTS, seconds=1200, say=print)
    print(summary)
    assert summary["right"]
    assert summary["matches"] and all(sink["expected"] for sink in summary["deliveries"].values())
    assert summary["faults"] >= FAULTS / 2


@pytest.mark.e2e
@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_power_cuts_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chaos_environment(tmp_path / "chaos", 11, 2 * CUTS + 4) as chaos:
        monkeypatch.setenv("PSTSTREAM_ENGINE", "local")
        for number in range(CUTS):
            power_cut(chaos, Episode("power", (Fault("power_cut", f"cut {number}"),)))
        quiet(chaos)
        summary = compare(chaos)
    assert is_right(summary), summary
    assert chaos.injected["power_cut"] >= CUTS / 2


@pytest.mark.e2e
@pytest.mark.chaos
@pytest.mark.timeout(1500)
def test_hostile_files_and_rows_cost_nothing_else(tmp_path: Path) -> None:
    faults = [("batch_killed_by_row", "object"), ("erasure_killed", ERASE_STEPS[0]), ("readers_killed_by_files", "")]
    faults += [("batch_killed_by_row", "request"), ("file_does_not_fit", "")]
    faults += [("erasure_killed", step) for step in ERASE_STEPS[1:]]
    episodes = {"batch_killed_by_row": hostile_row, "erasure_killed": killed_erasure, "file_does_not_fit": oversized}
    with chaos_environment(tmp_path / "chaos", 13, 5 * len(faults)) as chaos:
        for number, (kind, detail) in enumerate(faults):
            episodes.get(kind, killed_readers)(chaos, Episode(kind, (Fault(kind, f"{kind} {number}", detail),)))
            print(kind, detail, chaos.injected, chaos.most_rounds)
        quiet(chaos)
        summary = compare(chaos)
        is_mounted = chaos.disk.mounted
    assert is_right(summary), summary
    assert chaos.injected == Counter(kind for kind, _ in faults if is_mounted or kind != "file_does_not_fit")
    assert (summary["set_aside"], summary["erased"]) == (2, len(ERASE_STEPS))


@pytest.mark.e2e
@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_withdrawals_that_are_killed_are_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chaos_environment(tmp_path / "chaos", 12, 3 * len(WITHDRAW_STEPS) + 8) as chaos:
        monkeypatch.setenv("PSTSTREAM_ENGINE", "local")
        for step in WITHDRAW_STEPS:
            killed_withdrawal(chaos, Episode("withdraw", (Fault("withdrawal_killed", step, step),)))
        quiet(chaos)
        summary = compare(chaos)
        batches = read_table(Tables(chaos.home.path).table(names.BATCHES)).to_pylist()
    assert is_right(summary), summary
    assert chaos.injected["withdrawal_killed"] == len(WITHDRAW_STEPS)
    assert summary["matches"] and summary["answers"] > 100 and any(batch["retractions"] for batch in batches)
    assert summary["standing_answers"] > 10 and summary["standing_reports"] > 10, summary
