"""Render the state of a home as Prometheus metrics: for `pststream metrics`, the watcher and the Airflow plugin.

The text has the format 0.0.4 of https://prometheus.io/docs/instrumenting/exposition_formats. Counters are read from the
ledgers of the home and not from a process, so they continue over restarts.
"""

import datetime as dt
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pststream import __version__, names
from pststream.atomic_files import write_atomically
from pststream.delta_tables import AnyHome, TableReader
from pststream.domain.imbalance import finite_imbalance, imbalance_of
from pststream.reports.commands.metric_names import METRICS, PREFIX
from pststream.reports.commands.status import read_status
from pststream.reports.reading.delivery_progress import REMOVED

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Mapping[str, str], float | None]
"""Labels and value; a sample whose value is None is left out."""

Samples = dict[str, list[Sample]]
"""Samples by the name of their metric."""


def render_metrics(home: AnyHome) -> str:
    """Render the metrics of a home as text."""
    document = read_status(home)
    samples: Samples = {
        "build_info": [({"version": __version__}, 1)],
        "stored_rejects": _stored_rejects(home),
        **_of_logs(document),
        **_of_batches(document),
        **_of_answers(document),
        **_of_plan(document),
        **_of_sinks(document["deliveries"]),
        **_of_watcher(document["watcher"]),
    }
    return "".join(line + "\n" for name in METRICS for line in _lines(name, samples.get(name, [])))


def write_metrics(text: str, out: str | os.PathLike[str]) -> None:
    """Write the metrics atomically, as the textfile collector of node_exporter requires."""
    write_atomically(Path(out), text.encode(), durable=False)


def _of_logs(document: dict[str, Any]) -> Samples:
    totals, lag = document["totals"], document["lag"]
    kinds = ("objects", "requests")
    return {
        "accepted_rows_total": [({"kind": kind}, totals[kind]) for kind in kinds],
        "rejected_rows_total": [({"kind": kind}, totals["rejected"][kind]) for kind in kinds],
        "files_total": [({"kind": kind}, totals["files"][kind]) for kind in kinds],
        "pending_rows": [({"kind": kind}, lag[kind]["rows"]) for kind in kinds],
        "pending_files": [({"kind": kind}, lag[kind]["files"]) for kind in kinds],
        "lag_seconds": _one(lag["seconds"]),
        "watermark_timestamp_seconds": _one(_epoch(document["watermark"])),
        "quarantined_files": _one(document["quarantined"]),
        "live_subscriptions": _one(document["subscriptions"]["live"]),
        "questions_total": _one(document["questions"]["questions"]),
        "answer_rows_total": _one(document["questions"]["rows"]),
    }


def _stored_rejects(home: AnyHome) -> list[Sample]:
    """Count the rows of `rejects` by kind and reason: no counter, as `maintain --keep` and `erase` delete rows."""
    counts = Counter[tuple[str, str]]()
    for rows in TableReader(home).batches(names.REJECTS, ("kind", "reason")):
        grouped = pa.table(rows).group_by(["kind", "reason"]).aggregate([([], "count_all")])
        for kind, reason, count in zip(*(grouped.column(name).to_pylist() for name in ("kind", "reason", "count_all"))):
            counts[kind, reason] += count
    samples: list[Sample] = [({"kind": kind, "reason": why}, count) for (kind, why), count in counts.items()]
    return sorted(samples, key=lambda sample: sorted(sample[0].items()))


def _of_batches(document: dict[str, Any]) -> Samples:
    totals = document["totals"]
    done = [batch for batch in document["batches"] if batch["status"] == "done"]
    last = done[-1] if done else {"finished_at": None, "seconds": {}}
    return {
        "batches_total": _one(totals["batches"]),
        "matches_total": _one(totals["matches"]),
        "retractions_total": _one(totals["retractions"]),
        "unfinished_steps": _one(len(document["unfinished"])),
        "last_batch_finished_timestamp_seconds": _one(_epoch(last["finished_at"])),
        "last_batch_duration_seconds": [({"step": step}, seconds) for step, seconds in last["seconds"].items()],
    }


def _of_answers(document: dict[str, Any]) -> Samples:
    answers, totals = document["answers"], document["totals"]
    by_kind, parts = document["subscriptions_by_kind"], answers["log"].items()

    def total(name: str) -> list[Sample]:
        return [({"kind": kind}, count) for kind, count in totals[name].items()]

    return {
        "stream_timestamp_seconds": _one(_epoch(answers["stream_time"])),
        "live_subscriptions_by_kind": [({"kind": kind}, counts["live"]) for kind, counts in by_kind.items()],
        "answer_candidates_total": total("candidates"),
        "answer_changes_total": total("changes"),
        "answer_evaluations_total": total("evaluations"),
        "answer_log_rows": [({"part": part}, size["rows"]) for part, size in parts],
        "answer_log_bytes": [({"part": part}, size["bytes"]) for part, size in parts],
        "answer_snapshot_rows": _one(answers["snapshot"]["rows"] if answers["snapshot"] else None),
    }


def _of_plan(document: dict[str, Any]) -> Samples:
    plan, balance, index = document["plan"], document["balance"], document["index"]
    seconds = balance["cpu_seconds"] if balance else []
    return {
        "plan_version": _one(plan["version"] if plan else None),
        "imbalance_ratio": _one(_imbalance(seconds)),
        "index_bytes": _one(index["bytes"]),
        "index_files": _one(index["files"]),
    }


def _imbalance(seconds: list[float]) -> float | None:
    """Return the imbalance: infinite while a worker is idle, None while all are."""
    if not any(seconds):
        return None
    finite = finite_imbalance(imbalance_of(seconds))
    return math.inf if finite is None else finite


def _of_sinks(deliveries: list[dict[str, Any]]) -> Samples:
    sinks = [sink for sink in deliveries if sink["state"] != REMOVED]

    def of(name: str) -> list[Sample]:
        return [({"sink": sink["sink"]}, sink[name]) for sink in sinks]

    return {
        "sink_up": [({"sink": sink["sink"]}, sink["state"] in names.UP_STATES) for sink in sinks],
        "sink_batches_left": of("batches_left"),
        "sink_dead_letters": of("dead"),
        "sink_delivered_total": of("delivered"),
        "sink_refused_total": of("refused"),
        "sink_failures_total": of("failures"),
    }


def _of_watcher(heartbeat: dict[str, Any] | None) -> Samples:
    if heartbeat is None:
        return {}
    return {
        "watcher_up": _one(heartbeat["alive"]),
        "watcher_heartbeat_timestamp_seconds": _one(_epoch(heartbeat["at"])),
        "watcher_lag_seconds": _one(heartbeat["lag_seconds"]),
        "watcher_waiting_files": _one(heartbeat["waiting_files"]),
        "watcher_failures": _one(heartbeat["failures"]),
    }


def _one(value: float | None) -> list[Sample]:
    """Return the sample of a metric without labels."""
    return [({}, value)]


def _epoch(text: str | None) -> float | None:
    return None if text is None else dt.datetime.fromisoformat(text).timestamp()


def _lines(name: str, samples: list[Sample]) -> Iterator[str]:
    """Yield the lines of a metric; none if it has no samples."""
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    yield f"# HELP {PREFIX}{name} {METRICS[name].meaning}"
    yield f"# TYPE {PREFIX}{name} {METRICS[name].type}"
    for labels, value in known:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        number = "+Inf" if value == math.inf else repr(float(value))
        yield f"{PREFIX}{name}{'{' + pairs + '}' if pairs else ''} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
