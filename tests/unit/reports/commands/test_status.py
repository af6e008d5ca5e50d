"""Status agrees with the ledger that match uses, and Prometheus reads from the metrics what the ledgers contain."""

import json
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
from pststream.reports.commands.status import TABLES, render_status, status_at
from pststream.state import deliveries, ledger_tables, tables
from pststream.state.deliveries import Counts, SinkProgress
from pststream.state.heartbeat import Heartbeat
from pststream.state.home import Home
from pststream.state.plans import Retiring
from pststream.tables.delta_tables import TableReader
from pststream.tables.ledgers import Ledger, LedgerHistory, log_key
from tests.commands import run_here
from tests.damage import delete_rows
from tests.unit.reports.commands.homes import (
    add_answer_rows,
    add_batch,
    add_file,
    add_plan,
    add_sinks,
    at,
    deletion,
    halves,
    insertion,
    log_row,
    match_row,
    reject,
    snapshot_row,
    thing,
)


def shown(home: Home, minutes: float = 0) -> dict[str, Any]:
    """The status, which can be printed and rendered."""
    document = status_at(home, at(minutes))
    json.dumps(document)
    assert render_status(document)
    return document


def test_a_new_home(hand_home: Home) -> None:
    document = shown(hand_home)
    assert document["lag"] == {
        "objects": {"rows": 0, "files": 0, "oldest_ts": None},
        "requests": {"rows": 0, "files": 0, "oldest_at": None},
        "seconds": 0.0,
    }
    assert (document["watermark"], document["plan"], document["balance"]) == (None, None, None)
    assert document["subscriptions"] == {"live": 0, "inserted": 0}
    assert document["answers"] == {"stream_time": None, "log": {}, "snapshot": None}
    assert document["index"] == {"files": 0, "bytes": 0, "rows": 0, "leftovers": False}
    assert "first pststream match makes one" in render_status(document)


def test_every_table_has_its_version(hand_home: Home) -> None:
    assert set(TABLES) == set(tables.TABLES)
    assert shown(hand_home)["versions"].keys() == tables.TABLES.keys()


def test_totals_and_lag(hand_home: Home) -> None:
    add_file(hand_home, "requests", [insertion(1, "s1"), insertion(3, "s2", -30)], [reject(2, "missing")])
    seen = add_file(hand_home, "objects", [thing(1, "a", 5), thing(3, "b", 1), thing(4, "c", 2)], [reject(2, "late")])
    document = shown(hand_home)
    assert document["lag"]["objects"] == {"rows": 3, "files": 1, "oldest_ts": "2026-03-01T00:01:00Z"}
    assert document["lag"]["requests"] == {"rows": 2, "files": 1, "oldest_at": "2026-02-28T23:00:00Z"}
    assert shown(hand_home, 2)["lag"]["seconds"] == 120.0
    assert document["last_hour"] == {"accepted": 5, "rejected": 2}
    assert shown(hand_home, 61)["last_hour"] == {"accepted": 0, "rejected": 0}
    assert document["totals"]["rejected"] == {"objects": 1, "requests": 1}
    assert document["watermark"] == "2026-03-01T00:05:00Z"

    add_batch(hand_home, objects_to=log_key(seen, 3))  # takes a file in part
    add_file(hand_home, "objects", [thing(1, "d", 0)])
    document = shown(hand_home)
    assert document["lag"]["objects"] == {"rows": 2, "files": 2, "oldest_ts": "2026-03-01T00:00:00Z"}
    assert document["lag"]["requests"]["rows"] == 0

    add_batch(hand_home)
    assert shown(hand_home)["lag"]["objects"]["files"] == 0


def test_agrees_with_the_ledger_of_match(hand_home: Home) -> None:
    seen = add_file(hand_home, "objects", [thing(1, "a"), thing(2, "b")])
    add_file(hand_home, "requests", [insertion(1, "s1")])
    add_batch(hand_home, objects_to=log_key(seen, 1))
    add_file(hand_home, "objects", [thing(1, "c")], done=False)
    ledger, ledgers = Ledger(hand_home), LedgerHistory(TableReader(hand_home))
    assert (ledgers.objects_matched, ledgers.requests_applied) == (ledger.objects_matched, ledger.requests_applied)
    assert [file["file_seq"] for file in ledgers.pending_files("objects")] == [1]
    assert ledgers.started_files.column("file_seq").to_pylist() == [f["file_seq"] for f in ledger.unfinished_ingest()]
    assert ledgers.files_of("objects").column("file_seq").to_pylist() == [f["file_seq"] for f in ledger.done("objects")]


def test_live_subscriptions(hand_home: Home) -> None:
    asked = add_file(
        hand_home,
        "requests",
        [
            insertion(1, "forever"),
            insertion(2, "later", 10),
            insertion(3, "expires", expires_at=at(5)),
            insertion(4, "deleted"),
            deletion(5, "deleted", 3, log_key(1, 4)),
            deletion(6, "deleted", 2, log_key(1, 4)),
            insertion(7, "deleted", 4),
            insertion(8, "both", expires_at=at(6)),
            deletion(9, "both", 5.5, log_key(1, 8)),
        ],
    )
    assert asked == 1
    lives = {minutes: shown(hand_home, minutes)["subscriptions"] for minutes in (-61, 0, 2, 4, 5, 5.5, 6, 10)}
    assert {minutes: live["live"] for minutes, live in lives.items()} == {
        -61: 0, 0: 4, 2: 3, 4: 4, 5: 3, 5.5: 2, 6: 2, 10: 3,
    }  # fmt: skip
    assert lives[0]["inserted"] == 6


def test_subscriptions_by_kind(hand_home: Home) -> None:
    requests = [
        insertion(1, "box"), insertion(2, "near", kind="knn"), insertion(3, "gone", kind="knn"),
        insertion(4, "best", kind="topk", expires_at=at(5)), deletion(5, "gone", 3, log_key(1, 3)),
    ]  # fmt: skip
    add_file(hand_home, "requests", requests)
    by_kind = {kind: (one["live"], one["inserted"]) for kind, one in _by_kind(hand_home, 4).items()}
    assert by_kind == {"range": (1, 1), "knn": (1, 2), "topk": (1, 1)}
    assert [one["live"] for one in _by_kind(hand_home, 5).values()] == [1, 1, 0]
    text = render_status(shown(hand_home, 5))
    assert "2 live of 4 inserted; 1 range, 1 knn, 0 topk live" in text


def _by_kind(home: Home, minutes: float) -> dict[str, dict[str, int]]:
    by_kind: dict[str, dict[str, int]] = shown(home, minutes)["subscriptions_by_kind"]
    return by_kind


def test_sizes_of_answers_and_what_batches_did(hand_home: Home) -> None:
    add_file(hand_home, "objects", [thing(1, "a")])
    add_batch(hand_home, stream_time=at(0), candidates=[("knn", 3)], changes=[("knn", 2)], evaluations=[("knn", 1)])
    add_file(hand_home, "objects", [thing(1, "b")])
    add_batch(hand_home, stream_time=at(7), candidates=[], changes=[("frequent_terms", 4), ("knn", 1)], evaluations=[])
    add_answer_rows(hand_home, names.ANSWER_LOG, [log_row(1), log_row(1), log_row(2)], part="change")
    add_answer_rows(hand_home, names.ANSWER_LOG, [log_row(2)], part="state")
    for batch_id, rows in ((1, 3), (2, 2)):
        add_answer_rows(hand_home, names.ANSWERS, [snapshot_row(batch_id)] * rows)
    document = shown(hand_home)
    answers, totals = document["answers"], document["totals"]
    assert answers["stream_time"] == "2026-03-01T00:07:00Z"
    assert {part: (size["files"], size["rows"]) for part, size in answers["log"].items()} == {
        "change": (1, 3), "state": (1, 1),
    }  # fmt: skip
    assert (answers["snapshot"]["batch_id"], answers["snapshot"]["rows"]) == (2, 2)
    assert totals["candidates"] == {"knn": 3} and totals["evaluations"] == {"knn": 1}
    assert totals["changes"] == {"knn": 3, "frequent_terms": 4}
    assert [batch["changes"] for batch in document["batches"]] == [{"knn": 2}, {"frequent_terms": 4, "knn": 1}]
    text = render_status(document)
    assert "7 changes (4 frequent_terms, 3 knn)" in text or "7 changes (3 knn, 4 frequent_terms)" in text
    assert "snapshot of batch 2: 2 rows" in text and "batch 2: 0 candidates; 5 changes" in text


def test_quarantined_files_that_wait_for_a_decision(hand_home: Home) -> None:
    assert (shown(hand_home)["quarantined"], shown(hand_home)["quarantined_ids"]) == (0, [])
    hold = {"kind": "objects", "path": "/p", "bytes": 1, "options": "{}", "copy": "c", "head": [], "reasons": ["r"]}
    for number, status in ((1, "held"), (2, "held"), (4, "held"), (2, "discarded")):
        row = {"hold_id": number, "sha256": f"x{number}", "status": status, "written_at": at(0)}
        ledger_tables.append(hand_home, names.QUARANTINE, [hold | row])
    assert (shown(hand_home)["quarantined"], shown(hand_home)["quarantined_ids"]) == (2, [1, 4])


def test_the_plan_that_is_retired(hand_home: Home) -> None:
    add_file(hand_home, "requests", [insertion(1, "old"), insertion(2, "gone"), insertion(3, "older")])
    add_plan(hand_home, halves())
    assert shown(hand_home)["plan"]["retiring"] is None
    add_plan(hand_home, halves(), 2, retiring=Retiring(1, log_key(1, 4)))
    add_file(hand_home, "requests", [insertion(1, "new"), deletion(2, "gone", -30, log_key(1, 2))])
    document = shown(hand_home)
    retiring = {"version": 1, "planner": "stripes", "subscriptions_to": log_key(1, 4), "live": 2}
    assert (document["plan"]["version"], document["plan"]["retiring"]) == (2, retiring)
    assert "version 1, stripes, still serves 2 of 3 live subscriptions" in render_status(document)


def test_unfinished_ingests_and_batches(hand_home: Home) -> None:
    add_file(hand_home, "objects", [thing(1, "a")])
    add_batch(hand_home, [match_row(log_key(1, 1), "a", 0, [1])], done=False)
    add_file(hand_home, "requests", [insertion(1, "s1")], done=False)
    document = shown(hand_home)
    ingest, batch = document["unfinished"]
    assert (ingest["what"], ingest["id"], batch["what"], batch["id"]) == ("ingest", 2, "batch", 1)
    assert ingest["remedy"].startswith("pststream ingest requests /landing/requests-2.jsonl --home ")
    assert batch["remedy"].startswith("pststream match --home ")
    assert document["lag"]["objects"]["rows"] == 1
    assert document["totals"]["matches"] == 0
    assert document["batches"][-1]["status"] == "started"
    assert ingest["remedy"] in render_status(document)


def test_balance_of_the_last_batches(hand_home: Home) -> None:
    add_plan(hand_home, halves(2))
    add_plan(hand_home, halves(4), version=2)
    for _ in range(2):
        add_file(hand_home, "objects", [thing(1, "a")])
        add_batch(hand_home, plan_version=1, cpu_seconds=(100.0, 0.0))
    for seconds in ((1.0, 2.0, 0.0), (1.0, 2.0)):
        add_batch(hand_home, plan_version=2, cpu_seconds=seconds)
    document = shown(hand_home)
    balance = document["balance"]
    assert balance["batches"] == [3, 4]
    assert balance["cpu_seconds"] == [2.0, 4.0, 0.0, 0.0]
    assert (balance["max"], balance["min"], balance["imbalance"]) == (4.0, 0.0, None)
    assert document["plan"]["version"] == 2
    assert [batch["batch_id"] for batch in document["batches"]] == [1, 2, 3, 4]
    text = "measured imbalance infinite (idle worker): 2 of 4 workers without matching work over 2 batches under plan 2"
    assert text in render_status(document)
    add_batch(hand_home, plan_version=2, cpu_seconds=(0.0, 0.0, 1.0, 2.0))
    document = shown(hand_home)
    assert document["balance"]["imbalance"] == 4.0
    assert "measured imbalance 4 (greatest / least CPU time)" in render_status(document)


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


def test_metrics_of_a_new_home(hand_home: Home) -> None:
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
    letter = {"sink": "hook", "message_id": "m", "batch_id": 1, "owner": "", "subscription_id": "s"}
    deliveries.save_dead_letters(hand_home, [letter | {"kind": "match", "reason": "410", "message": "{}"}])
    hold = {"hold_id": 1, "kind": "objects", "path": "/p", "sha256": "x", "bytes": 1, "options": "{}", "copy": "c"}
    hold |= {"head": [], "reasons": ["r"], "status": "held", "written_at": at(0)}
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
