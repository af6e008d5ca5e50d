"""Render the status of a home as Prometheus metrics (text format 0.0.4), to print or to write to a file.

https://prometheus.io/docs/instrumenting/exposition_formats. Counters are read from the tables of the home and not from
a process, so they continue over restarts.
"""

import datetime as dt
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pststream import names
from pststream.atomic_files import write_atomically
from pststream.domain.imbalance import imbalance_of
from pststream.reports.commands.status import read_status
from pststream.reports.reading.delivery_progress import REMOVED
from pststream.reports.reading.table_reader import AnyHome, TableReader

GAUGE, COUNTER = "gauge", "counter"
Sample = tuple[Mapping[str, str], float | None]
Metric = tuple[str, str, str, list[Sample]]
"""Name without `pststream_`, type, meaning, samples: labels and value; None is left out."""

_UP_STATES = ("ok", "behind")


def render_metrics(home: AnyHome, now: dt.datetime | None = None) -> str:
    """Render the metrics of a home as text."""
    document = read_status(home, now)
    metrics = [
        *_of_logs(document),
        ("rejects_total", COUNTER, "Rows rejected", _rejects(home)),
        *_of_batches(document),
        *_of_plan(document),
        *_of_sinks(document["deliveries"]),
        *_of_watcher(document["watcher"]),
    ]
    return "".join(line + "\n" for metric in metrics for line in _lines(*metric))


def write_metrics(text: str, out: str | os.PathLike[str]) -> None:
    """Write the metrics atomically, as the textfile collector of node_exporter requires."""
    write_atomically(Path(out), text.encode())


def _of_logs(document: dict[str, Any]) -> list[Metric]:
    totals, lag = document["totals"], document["lag"]
    kinds = ("objects", "requests")
    return [
        ("accepted_rows_total", COUNTER, "Rows accepted", [({"kind": kind}, totals[kind]) for kind in kinds]),
        ("files_total", COUNTER, "Files ingested", [({"kind": kind}, totals["files"][kind]) for kind in kinds]),
        (
            "pending_rows",
            GAUGE,
            "Accepted rows that no batch has processed",
            [({"kind": k}, lag[k]["rows"]) for k in kinds],
        ),
        (
            "pending_files",
            GAUGE,
            "Files that no batch has processed completely",
            [({"kind": k}, lag[k]["files"]) for k in kinds],
        ),
        (
            "lag_seconds",
            GAUGE,
            "Seconds since the ingest of the oldest pending file; 0 if none is pending",
            [({}, lag["seconds"])],
        ),
        ("watermark_seconds", GAUGE, "Greatest ts of the object log", [({}, _epoch(document["watermark"]))]),
        ("quarantined_files", GAUGE, "Files in quarantine", [({}, document["quarantined"])]),
        ("live_subscriptions", GAUGE, "Live subscriptions", [({}, document["subscriptions"]["live"])]),
    ]


def _rejects(home: AnyHome) -> list[Sample]:
    """Count the rejected rows by kind and reason."""
    counts = Counter[tuple[str, str]]()
    for rows in TableReader(home).batches(names.REJECTS, ("kind", "reason")):
        grouped = pa.table(rows).group_by(["kind", "reason"]).aggregate([([], "count_all")])
        for kind, reason, count in zip(*(grouped.column(name).to_pylist() for name in ("kind", "reason", "count_all"))):
            counts[kind, reason] += count
    samples: list[Sample] = [({"kind": kind, "reason": why}, count) for (kind, why), count in counts.items()]
    return sorted(samples, key=lambda sample: sorted(sample[0].items()))


def _of_batches(document: dict[str, Any]) -> list[Metric]:
    totals = document["totals"]
    done = [batch for batch in document["batches"] if batch["status"] == "done"]
    last = done[-1] if done else {"batch_id": None, "finished_at": None, "seconds": {}}
    return [
        ("batches_total", COUNTER, "Micro-batches that are done", [({}, totals["batches"])]),
        ("matches_total", COUNTER, "Matched pairs", [({}, totals["matches"])]),
        ("retractions_total", COUNTER, "Retracted pairs", [({}, totals["retractions"])]),
        ("unfinished", GAUGE, "Ingests and batches that are running or were killed",
            [({}, len(document["unfinished"]))]),
        ("last_batch_finished_seconds", GAUGE, "End of the last batch", [({}, _epoch(last["finished_at"]))]),
        ("last_batch_seconds", GAUGE, "Seconds of each step of the last batch",
            [({"step": step}, seconds) for step, seconds in last["seconds"].items()]),
    ]  # fmt: skip


def _of_plan(document: dict[str, Any]) -> list[Metric]:
    plan, balance, index = document["plan"], document["balance"], document["index"]
    seconds = balance["cpu_seconds"] if balance else []
    imbalance = imbalance_of(seconds) if any(seconds) else None
    return [
        ("plan_version", GAUGE, "The plan in force", [({}, plan["version"] if plan else None)]),
        ("imbalance", GAUGE, "CPU seconds of the most loaded worker over the least loaded, last batches",
            [({}, imbalance)]),
        ("index_bytes", GAUGE, "Bytes of the worker index", [({}, index["bytes"])]),
        ("index_files", GAUGE, "Data files of the worker index", [({}, index["files"])]),
    ]  # fmt: skip


def _of_sinks(deliveries: list[dict[str, Any]]) -> list[Metric]:
    sinks = [sink for sink in deliveries if sink["state"] != REMOVED]

    def of(name: str) -> list[Sample]:
        return [({"sink": sink["sink"]}, sink[name]) for sink in sinks]

    up: list[Sample] = [({"sink": sink["sink"]}, sink["state"] in _UP_STATES) for sink in sinks]
    return [
        ("sink_up", GAUGE, "Whether the sink accepted its last messages", up),
        ("sink_batches_left", GAUGE, "Batches that are not delivered to the sink yet", of("batches_left")),
        ("sink_dead_letters", GAUGE, "Messages that the sink finally refused", of("dead")),
        ("sink_delivered_total", COUNTER, "Messages delivered", of("delivered")),
        ("sink_refused_total", COUNTER, "Messages refused", of("refused")),
        ("sink_failures_total", COUNTER, "Failed attempts", of("failures")),
    ]


def _of_watcher(heartbeat: dict[str, Any] | None) -> list[Metric]:
    if heartbeat is None:
        return []
    return [
        ("watcher_up", GAUGE, "Whether a watcher is alive", [({}, heartbeat["alive"])]),
        (
            "watcher_lag_seconds",
            GAUGE,
            "Everything that landed before this many seconds ago is matched",
            [({}, heartbeat["lag_seconds"])],
        ),
        ("watcher_waiting_files", GAUGE, "Landed files that are not matched", [({}, heartbeat["waiting_files"])]),
        ("watcher_failures", GAUGE, "Consecutive rounds that failed", [({}, heartbeat["failures"])]),
    ]


def _epoch(text: str | None) -> float | None:
    return None if text is None else dt.datetime.fromisoformat(text).timestamp()


def _lines(name: str, kind: str, meaning: str, samples: list[Sample]) -> Iterator[str]:
    """Yield the lines of a metric; none if it has no samples."""
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    yield f"# HELP pststream_{name} {meaning}"
    yield f"# TYPE pststream_{name} {kind}"
    for labels, value in known:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"pststream_{name}{'{' + pairs + '}' if pairs else ''} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
