"""Render the state of a home as Prometheus metrics: for `pststream metrics`, the watcher and the Airflow plugin.

The text has the format 0.0.4 of https://prometheus.io/docs/instrumenting/exposition_formats. Counters are read from the
ledgers of the home and not from a process, so they continue over restarts. Names are by
https://prometheus.io/docs/practices/naming; docs/operation.md lists the metrics.
"""

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from pststream import __version__
from pststream.base import names
from pststream.plans.imbalance import finite_imbalance, imbalance_of
from pststream.reports.commands.status import read_status
from pststream.reports.reading.home_figures import REMOVED
from pststream.tables.delta_tables import AnyHome, TableReader

PREFIX = "pststream_"
"""All names begin with this."""

GAUGE, COUNTER = "gauge", "counter"


class Metric(NamedTuple):
    """One metric. The values of each label are few: kinds, reasons and steps of the code, sinks of the settings."""

    type: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()


METRICS = {
    "build_info": Metric(GAUGE, "1", "Version of PSTStream that rendered the metrics", ("version",)),
    "accepted_rows_total": Metric(COUNTER, "rows", "Rows accepted", ("kind",)),
    "rejected_rows_total": Metric(COUNTER, "rows", "Rows rejected", ("kind",)),
    "stored_rejects": Metric(GAUGE, "rows", "Rejected rows in the table of rejects, by reason", ("kind", "reason")),
    "files_total": Metric(COUNTER, "files", "Files ingested", ("kind",)),
    "quarantined_files": Metric(GAUGE, "files", "Files in quarantine"),
    "pending_rows": Metric(GAUGE, "rows", "Accepted rows that no batch has processed", ("kind",)),
    "pending_files": Metric(GAUGE, "files", "Files that no batch has processed completely", ("kind",)),
    "lag_seconds": Metric(GAUGE, "seconds", "Time since the ingest of the oldest pending file; 0 if none is pending"),
    "watermark_timestamp_seconds": Metric(GAUGE, "seconds since 1970", "Greatest ts of the object log"),
    "stream_timestamp_seconds": Metric(GAUGE, "seconds since 1970", "Stream time of the last batch"),
    "live_subscriptions": Metric(GAUGE, "subscriptions", "Live subscriptions"),
    "live_subscriptions_by_kind": Metric(GAUGE, "subscriptions", "Live subscriptions of each kind", ("kind",)),
    "batches_total": Metric(COUNTER, "batches", "Micro-batches that are done"),
    "matches_total": Metric(COUNTER, "pairs", "Matched pairs"),
    "retractions_total": Metric(COUNTER, "pairs", "Retracted pairs"),
    "answer_candidates_total": Metric(
        COUNTER, "pairs", "Objects that might enter an answer of a subscription with memory", ("kind",)
    ),
    "answer_changes_total": Metric(COUNTER, "rows", "Rows that entered or left answers", ("kind",)),
    "answer_evaluations_total": Metric(
        COUNTER, "answers", "Answers, or reports, computed from the stored objects", ("kind",)
    ),
    "answer_log_rows": Metric(GAUGE, "rows", "Rows of the log of answers", ("part",)),
    "answer_log_bytes": Metric(GAUGE, "bytes", "Size of the log of answers", ("part",)),
    "answer_snapshot_rows": Metric(GAUGE, "rows", "Rows of the last snapshot of the answers"),
    "questions_total": Metric(COUNTER, "questions", "Questions of answered files"),
    "answer_rows_total": Metric(COUNTER, "rows", "Rows of their answers"),
    "unfinished_steps": Metric(GAUGE, "steps", "Ingests and batches that are running or were killed"),
    "last_batch_finished_timestamp_seconds": Metric(GAUGE, "seconds since 1970", "End of the last batch"),
    "last_batch_duration_seconds": Metric(GAUGE, "seconds", "Duration of each step of the last batch", ("step",)),
    "plan_version": Metric(GAUGE, "version", "The plan in force"),
    "imbalance_ratio": Metric(
        GAUGE,
        "ratio",
        "CPU time of the most loaded worker over that of the least loaded, in the last 10 batches; +Inf: one is idle",
    ),
    "index_bytes": Metric(GAUGE, "bytes", "Size of the worker index"),
    "index_files": Metric(GAUGE, "files", "Data files of the worker index"),
    "sink_up": Metric(GAUGE, "0 or 1", "Whether the sink accepted its last messages", ("sink",)),
    "sink_batches_left": Metric(GAUGE, "batches", "Batches that are not delivered to the sink yet", ("sink",)),
    "sink_dead_letters": Metric(GAUGE, "messages", "Messages that the sink finally refused", ("sink",)),
    "sink_delivered_total": Metric(COUNTER, "messages", "Messages delivered", ("sink",)),
    "sink_refused_total": Metric(COUNTER, "messages", "Messages refused", ("sink",)),
    "sink_failures_total": Metric(COUNTER, "attempts", "Failed attempts to deliver", ("sink",)),
    "watcher_up": Metric(GAUGE, "0 or 1", "Whether a watcher is alive"),
    "watcher_heartbeat_timestamp_seconds": Metric(GAUGE, "seconds since 1970", "Last heartbeat of the watcher"),
    "watcher_lag_seconds": Metric(GAUGE, "seconds", "Everything that landed at least this long ago is matched"),
    "watcher_waiting_files": Metric(GAUGE, "files", "Landed files that are not matched"),
    "watcher_failures": Metric(GAUGE, "rounds", "Consecutive rounds that failed"),
}
"""By name, without PREFIX, in the order of the text."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

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
        **_of_answers(document),
        **_of_plan(document),
        **_of_sinks(document["deliveries"]),
        **_of_watcher(document["watcher"]),
    }
    return "".join(line + "\n" for name in METRICS for line in _lines(name, samples.get(name, [])))


def _of_logs(document: dict[str, Any]) -> Samples:
    totals, lag = document["totals"], document["lag"]
    done = [batch for batch in document["batches"] if batch["status"] == "done"]
    last = done[-1] if done else {"finished_at": None, "seconds": {}}
    kinds = ("objects", "requests")
    return {
        "accepted_rows_total": _each("kind", {kind: totals[kind] for kind in kinds}),
        "rejected_rows_total": _each("kind", totals["rejected"]),
        "files_total": _each("kind", totals["files"]),
        "pending_rows": _each("kind", {kind: lag[kind]["rows"] for kind in kinds}),
        "pending_files": _each("kind", {kind: lag[kind]["files"] for kind in kinds}),
        "lag_seconds": _one(lag["seconds"]),
        "watermark_timestamp_seconds": _one(_epoch(document["watermark"])),
        "quarantined_files": _one(document["quarantined"]),
        "live_subscriptions": _one(document["subscriptions"]["live"]),
        "questions_total": _one(document["questions"]["questions"]),
        "answer_rows_total": _one(document["questions"]["rows"]),
        "batches_total": _one(totals["batches"]),
        "matches_total": _one(totals["matches"]),
        "retractions_total": _one(totals["retractions"]),
        "unfinished_steps": _one(len(document["unfinished"])),
        "last_batch_finished_timestamp_seconds": _one(_epoch(last["finished_at"])),
        "last_batch_duration_seconds": _each("step", last["seconds"]),
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


def _of_answers(document: dict[str, Any]) -> Samples:
    answers, totals = document["answers"], document["totals"]
    by_kind, log = document["subscriptions_by_kind"], answers["log"]
    return {
        "stream_timestamp_seconds": _one(_epoch(answers["stream_time"])),
        "live_subscriptions_by_kind": _each("kind", {kind: counts["live"] for kind, counts in by_kind.items()}),
        **{f"answer_{name}_total": _each("kind", totals[name]) for name in ("candidates", "changes", "evaluations")},
        **{f"answer_log_{name}": _each("part", {part: log[part][name] for part in log}) for name in ("rows", "bytes")},
        "answer_snapshot_rows": _one(answers["snapshot"]["rows"] if answers["snapshot"] else None),
    }


def _of_plan(document: dict[str, Any]) -> Samples:
    plan, balance, index = document["plan"], document["balance"], document["index"]
    imbalance = None  # while all workers are idle
    if balance and any(balance["cpu_seconds"]):
        finite = finite_imbalance(imbalance_of(balance["cpu_seconds"]))
        imbalance = math.inf if finite is None else finite
    return {
        "plan_version": _one(plan["version"] if plan else None),
        "imbalance_ratio": _one(imbalance),
        "index_bytes": _one(index["bytes"]),
        "index_files": _one(index["files"]),
    }


def _of_sinks(deliveries: list[dict[str, Any]]) -> Samples:
    sinks = {sink["sink"]: sink for sink in deliveries if sink["state"] != REMOVED}
    figures = {"batches_left": "batches_left", "dead_letters": "dead"}
    figures |= {f"{name}_total": name for name in ("delivered", "refused", "failures")}
    up = {name: sink["state"] in names.UP_STATES for name, sink in sinks.items()}
    return {
        "sink_up": _each("sink", up),
        **{
            f"sink_{metric}": _each("sink", {name: sinks[name][figure] for name in sinks})
            for metric, figure in figures.items()
        },
    }


def _of_watcher(heartbeat: dict[str, Any] | None) -> Samples:
    if heartbeat is None:
        return {}
    figures = {f"watcher_{name}": _one(heartbeat[name]) for name in ("lag_seconds", "waiting_files", "failures")}
    at = _epoch(heartbeat["at"])
    return {"watcher_up": _one(heartbeat["alive"]), "watcher_heartbeat_timestamp_seconds": _one(at), **figures}


def _each(label: str, values: Mapping[str, float | None]) -> list[Sample]:
    """Return the samples of a metric with one label."""
    return [({label: name}, value) for name, value in values.items()]


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
        texts = {key: text.translate(_ESCAPES) for key, text in labels.items()}
        pairs = ",".join(f'{key}="{text}"' for key, text in texts.items())
        number = "+Inf" if value == math.inf else repr(float(value))
        yield f"{PREFIX}{name}{'{' + pairs + '}' if pairs else ''} {number}"
