"""Declare the metrics of a home: name, type, unit, labels and meaning, by the naming conventions of Prometheus.

https://prometheus.io/docs/practices/naming. `metrics.py` computes the values; docs/operation.md lists the metrics.
"""

from typing import NamedTuple

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
