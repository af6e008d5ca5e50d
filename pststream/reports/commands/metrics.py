"""Figures of a home as metrics for Prometheus, in its text format 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats. What counts up over the life of a home is a counter: it is
read from the ledgers, so it goes on over restarts.
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
from pststream.reports.commands.status import status
from pststream.reports.reading.delivery_progress import REMOVED
from pststream.reports.reading.table_reader import AnyHome, Reader

GAUGE, COUNTER = "gauge", "counter"
Sample = tuple[Mapping[str, str], float | None]
Metric = tuple[str, str, str, list[Sample]]
"""Name without `pststream_`, type, meaning, samples: labels and value; None is left out."""

_WELL = ("ok", "behind")


def metrics(home: AnyHome, now: dt.datetime | None = None) -> str:
    """The metrics of a home as text."""
    document = status(home, now)
    found = [
        *_of_logs(document),
        ("rejects_total", COUNTER, "Rows rejected", _rejects(home)),
        *_of_batches(document),
        *_of_plan(document),
        *_of_sinks(document["deliveries"]),
        *_of_watcher(document["watcher"]),
    ]
    return "".join(line + "\n" for metric in found for line in _lines(*metric))


def write_metrics(text: str, out: str | os.PathLike[str]) -> None:
    """Write them whole or not at all, as node_exporter's textfile collector wants them."""
    write_atomically(Path(out), text.encode())


def _of_logs(document: dict[str, Any]) -> list[Metric]:
    totals, lag = document["totals"], document["lag"]
    kinds = ("objects", "requests")
    return [
        ("accepted_rows_total", COUNTER, "Rows accepted", [({"kind": kind}, totals[kind]) for kind in kinds]),
        ("files_total", COUNTER, "Files taken in", [({"kind": kind}, totals["files"][kind]) for kind in kinds]),
        ("pending_rows", GAUGE, "Rows that no batch has taken", [({"kind": k}, lag[k]["rows"]) for k in kinds]),
        ("pending_files", GAUGE, "Files that no batch has taken", [({"kind": k}, lag[k]["files"]) for k in kinds]),
        (
            "lag_seconds",
            GAUGE,
            "Seconds since the oldest pending file was taken in; 0: none is pending",
            [({}, lag["seconds"])],
        ),
        ("watermark_seconds", GAUGE, "Greatest ts of the object log", [({}, _epoch(document["watermark"]))]),
        ("quarantined_files", GAUGE, "Files that the landing gate holds", [({}, document["quarantined"])]),
        ("live_subscriptions", GAUGE, "Subscriptions that live now", [({}, document["subscriptions"]["live"])]),
    ]


def _rejects(home: AnyHome) -> list[Sample]:
    """Rows by kind and reason: two columns of few values."""
    counts = Counter[tuple[str, str]]()
    for rows in Reader(home).batches(names.REJECTS, ("kind", "reason")):
        grouped = pa.table(rows).group_by(["kind", "reason"]).aggregate([([], "count_all")])
        for kind, reason, count in zip(*(grouped.column(name).to_pylist() for name in ("kind", "reason", "count_all"))):
            counts[kind, reason] += count
    found = [({"kind": kind, "reason": reason}, count) for (kind, reason), count in counts.items()]
    return sorted(found, key=lambda sample: sorted(sample[0].items()))


def _of_batches(document: dict[str, Any]) -> list[Metric]:
    totals = document["totals"]
    done = [batch for batch in document["batches"] if batch["status"] == "done"]
    last = done[-1] if done else {"batch_id": None, "finished_at": None, "seconds": {}}
    return [
        ("batches_total", COUNTER, "Micro-batches done", [({}, totals["batches"])]),
        ("matches_total", COUNTER, "Pairs found", [({}, totals["matches"])]),
        ("retractions_total", COUNTER, "Pairs taken back", [({}, totals["retractions"])]),
        ("unfinished", GAUGE, "Ingests and batches that are under way or were killed",
            [({}, len(document["unfinished"]))]),
        ("last_batch_finished_seconds", GAUGE, "When the last batch was done", [({}, _epoch(last["finished_at"]))]),
        ("last_batch_seconds", GAUGE, "Seconds of each step of the last batch",
            [({"step": step}, seconds) for step, seconds in last["seconds"].items()]),
    ]  # fmt: skip


def _of_plan(document: dict[str, Any]) -> list[Metric]:
    plan, balance, index = document["plan"], document["balance"], document["index"]
    seconds = balance["cpu_seconds"] if balance else []
    most = max(seconds, default=0.0)
    imbalance = most / max(min(seconds), most * 1e-9) if most > 0 else None
    return [
        ("plan_version", GAUGE, "The plan in force", [({}, plan["version"] if plan else None)]),
        ("imbalance", GAUGE, "CPU seconds of the most loaded worker over the least loaded, last batches",
            [({}, imbalance)]),
        ("index_bytes", GAUGE, "Bytes of the worker index", [({}, index["bytes"])]),
        ("index_files", GAUGE, "Data files of the worker index", [({}, index["files"])]),
    ]  # fmt: skip


def _of_sinks(told: list[dict[str, Any]]) -> list[Metric]:
    sinks = [sink for sink in told if sink["state"] != REMOVED]

    def of(name: str) -> list[Sample]:
        return [({"sink": sink["sink"]}, sink[name]) for sink in sinks]

    up: list[Sample] = [({"sink": sink["sink"]}, sink["state"] in _WELL) for sink in sinks]
    return [
        ("sink_up", GAUGE, "Whether the sink took what it was told last", up),
        ("sink_batches_left", GAUGE, "Batches that the sink was not told of", of("batches_left")),
        ("sink_dead_letters", GAUGE, "Messages that the sink refused for good", of("dead")),
        ("sink_delivered_total", COUNTER, "Messages delivered", of("delivered")),
        ("sink_refused_total", COUNTER, "Messages refused", of("refused")),
        ("sink_failures_total", COUNTER, "Tries that failed", of("failures")),
    ]


def _of_watcher(found: dict[str, Any] | None) -> list[Metric]:
    if found is None:
        return []
    return [
        ("watcher_up", GAUGE, "Whether a watcher is alive", [({}, found["alive"])]),
        ("watcher_lag_seconds", GAUGE, "All that had landed so long ago is matched", [({}, found["lag_seconds"])]),
        ("watcher_waiting_files", GAUGE, "Files that landed and are not matched", [({}, found["waiting_files"])]),
        ("watcher_failures", GAUGE, "Rounds that failed in a row", [({}, found["failures"])]),
    ]


def _epoch(text: str | None) -> float | None:
    return None if text is None else dt.datetime.fromisoformat(text).timestamp()


def _lines(name: str, kind: str, meaning: str, samples: list[Sample]) -> Iterator[str]:
    """A metric without samples is left out."""
    told = [(labels, value) for labels, value in samples if value is not None]
    if not told:
        return
    yield f"# HELP pststream_{name} {meaning}"
    yield f"# TYPE pststream_{name} {kind}"
    for labels, value in told:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"pststream_{name}{'{' + pairs + '}' if pairs else ''} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
