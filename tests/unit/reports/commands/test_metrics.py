"""Prometheus' own parser reads from the metrics what the ledgers contain."""

import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pststream import __version__
from pststream.base import names
from pststream.reports.commands.metrics import METRICS, render_metrics
from pststream.state import deliveries, ledger_tables
from pststream.state.deliveries import Counts, SinkProgress
from pststream.state.heartbeat import Heartbeat
from pststream.state.home import Home
from tests.commands import run_here
from tests.damage import delete_rows
from tests.unit.reports.commands.homes import (
    add_answer_rows,
    add_batch,
    add_file,
    add_plan,
    add_sinks,
    at,
    halves,
    insertion,
    log_row,
    match_row,
    reject,
    snapshot_row,
    thing,
)

LABELS = {"kind", "part", "reason", "step", "sink", "version"}
"""Their values are those of the code and of the settings, so that they are few."""

Values = dict[tuple[str, frozenset[Any]], float]


def parsed(text: str) -> Values:
    """Every sample by name and labels; each name has a type and a meaning, and no sample comes twice."""
    found: Values = {}
    for family in text_string_to_metric_families(text):
        assert family.type in ("gauge", "counter") and family.documentation
        assert family.type == "counter" or not family.name.endswith("_total")
        for sample in family.samples:
            place = (sample.name.removeprefix("pststream_"), frozenset(sample.labels.items()))
            assert place not in found and sample.name.startswith("pststream_")
            found[place] = sample.value
    return found


def value(found: Values, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


def test_a_new_home(hand_home: Home) -> None:
    found = parsed(render_metrics(hand_home))
    assert value(found, "batches_total") == value(found, "lag_seconds") == 0
    assert value(found, "imbalance_ratio") is value(found, "watcher_up") is None


def test_an_idle_worker(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    add_file(hand_home, "objects", [thing(1, "a")])
    add_batch(hand_home, cpu_seconds=(3.0, 0.0))
    text = render_metrics(hand_home)
    assert "\npststream_imbalance_ratio +Inf\n" in text
    assert value(parsed(text), "imbalance_ratio") == math.inf


def test_every_figure(hand_home: Home) -> None:
    add_plan(hand_home, halves())
    add_file(hand_home, "requests", [insertion(1, "s1"), insertion(2, "s2")], [reject(3, "missing")])
    taken = add_file(
        hand_home, "objects", [thing(1, "a"), thing(2, "b", 5)], [reject(3, 'odd "\\\n'), reject(4, "late")]
    )
    counts = {name: [("knn", 3)] for name in ("candidates", "changes", "evaluations")}
    matches = [match_row(taken << 32 | 1, "a", 0, [1, 2])]
    add_batch(hand_home, matches, cpu_seconds=(3.0, 1.5), stream_time=at(5), **counts)
    add_answer_rows(hand_home, names.ANSWER_LOG, [log_row(1), log_row(1)], part="change")
    add_answer_rows(hand_home, names.ANSWERS, [snapshot_row(1)])
    add_file(hand_home, "objects", [thing(1, "c")])
    add_sinks(hand_home, "hook", "files")
    for sink, state in (("hook", "down"), ("files", "ok")):
        place = SinkProgress(1, 2, state == "ok", state=state)
        deliveries.save_progress(hand_home, sink, place, Counts(2, 1, 4))
    letter = {"sink": "hook", "message_id": "m", "batch_id": 1, "subscription_id": "s", "kind": "match"}
    deliveries.save_dead_letters(hand_home, [letter | {"reason": "410", "message": "{}"}])
    hold = {"hold_id": 1, "kind": "objects", "path": "/p", "sha256": "x", "bytes": 1, "options": "{}", "copy": "c"}
    hold |= {"reasons": ["r"], "status": "held", "written_at": at(0)}
    ledger_tables.append(hand_home, names.QUARANTINE, [hold])
    with Heartbeat(hand_home):
        found = parsed(render_metrics(hand_home))
    expected = {
        "batches_total": 1, "matches_total": 2, "retractions_total": 0, "quarantined_files": 1,
        "live_subscriptions": 2, "plan_version": 1, "imbalance_ratio": 2.0, "unfinished_steps": 0, "watcher_up": 1,
        "watermark_timestamp_seconds": at(5).timestamp(), "stream_timestamp_seconds": at(5).timestamp(),
        "answer_snapshot_rows": 1,
        "last_batch_finished_timestamp_seconds": at(101).timestamp(),
    }  # fmt: skip
    assert {name: value(found, name) for name in expected} == expected
    assert value(found, "accepted_rows_total", kind="objects") == 3
    assert (
        value(found, "live_subscriptions_by_kind", kind="range") == value(found, "answer_log_rows", part="change") == 2
    )
    assert value(found, "answer_log_bytes", part="change") > 0
    for name in ("answer_candidates_total", "answer_changes_total", "answer_evaluations_total"):
        assert value(found, name, kind="knn") == 3
    assert value(found, "pending_rows", kind="objects") == value(found, "pending_files", kind="objects") == 1
    assert value(found, "pending_files", kind="requests") == 0
    assert value(found, "lag_seconds") > 0
    assert value(found, "stored_rejects", kind="requests", reason="missing") == 1
    assert value(found, "stored_rejects", kind="objects", reason='odd "\\\n') == 1
    assert value(found, "last_batch_duration_seconds", step="match") == 1.5
    assert [value(found, "sink_up", sink=sink) for sink in ("hook", "files")] == [0, 1]
    assert [value(found, "sink_batches_left", sink=sink) for sink in ("hook", "files")] == [1, 0]
    assert value(found, "sink_dead_letters", sink="hook") == 1
    assert value(found, "sink_failures_total", sink="files") == 4
    assert value(found, "build_info", version=__version__) == 1
    assert {name for name, _ in found} == set(METRICS), "every declared metric has a value here, and no other"
    for name, labels in found:
        assert {key for key, _ in labels} == set(METRICS[name].labels), name


def test_a_counter_does_not_fall_when_rejects_are_deleted(hand_home: Home) -> None:
    add_file(hand_home, "objects", [thing(1, "a")], [reject(2, "late"), reject(3, "missing")])
    before = render_metrics(hand_home)
    delete_rows(hand_home, names.REJECTS, "reason = 'late'")  # as `maintain --keep` and `erase` do
    after = parsed(render_metrics(hand_home))
    counters = {name: METRICS[name].type == "counter" for name in METRICS}
    fallen = {name for (name, labels), old in parsed(before).items() if after.get((name, labels), 0) < old}
    assert fallen == {"stored_rejects"} and not any(counters[name] for name in fallen)
    assert value(after, "rejected_rows_total", kind="objects") == 2


def test_names_follow_the_conventions_of_prometheus() -> None:
    for name, metric in METRICS.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name), name
        assert (metric.type == "counter") == name.endswith("_total"), name
        assert (metric.unit == "seconds since 1970") == name.endswith("_timestamp_seconds"), name
        for unit in ("seconds", "bytes", "ratio"):
            assert (metric.unit.split()[0] == unit) == name.endswith(f"_{unit}"), name
        assert set(metric.labels) <= LABELS, f"{name}: may the label have any number of values?"


def test_prometheus_own_tool_accepts_the_text(hand_home: Home) -> None:
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed")
    text = render_metrics(hand_home)
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command(hand_home: Home, tmp_path: Path) -> None:
    printed = run_here("metrics", "--home", hand_home.path)
    assert printed.code == 0 and value(parsed(printed.out), "batches_total") == 0
    folder = tmp_path / "textfile"
    folder.mkdir()
    assert run_here("metrics", "--home", hand_home.path, "--out", folder / "pststream.prom").code == 0
    assert [file.name for file in folder.iterdir()] == ["pststream.prom"]
    assert parsed((folder / "pststream.prom").read_text()).keys() == parsed(printed.out).keys()


@pytest.mark.parametrize("argument", ["--out=/nowhere/at/all.prom"])
def test_a_file_that_cannot_be_written_is_bad_usage(hand_home: Home, argument: str) -> None:
    assert run_here("metrics", "--home", hand_home.path, argument).code == 2
