"""Log what a job writes to standard error, and its result in one line, at the right level in the log of its task."""

import json
import logging
import re
from collections.abc import Callable
from typing import Any

from pststream.base import names
from pststream.base.texts import counted, duration, escape_controls
from pststream.plans.imbalance import imbalance_text

log = logging.getLogger(__name__)

LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
"""By `level` of a line of a command (pststream/base/stderr_log.py)."""

SPARK_LINE = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (WARN|ERROR|FATAL) ")
SPARK_LEVELS = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.ERROR}

JSON_LINES = {"PSTSTREAM_LOG": "json"}
"""The environment with which a job writes a JSON object for each line."""

Line = tuple[int, str]
"""Level and text."""


def log_line(line: str) -> None:
    """Log one line of a job's standard error."""
    level, text = parse_line(line)
    log.log(level, "%s", text)


def parse_line(line: str) -> Line:
    """Return level and message of a line: of PSTStream as JSON, of Spark, or of anything else."""
    try:
        fields = json.loads(line) if line.startswith("{") else None
        if fields is not None:
            return LEVELS[fields["level"]], str(fields["message"])
    except (ValueError, KeyError, TypeError):
        pass
    spark = SPARK_LINE.match(line)
    return (SPARK_LEVELS[spark[1]] if spark else logging.INFO), line


def log_result(job: str, result: Any) -> None:
    """Log the result of a job in one line: as a warning if somebody should look at it."""
    level, text = describe_result(job, result)
    log.log(level, "%s: %s", job, escape_controls(text))


def describe_result(job: str, result: Any) -> Line:
    """Return level and text of the line. A document that has other keys than expected is only `done`: so is the job."""
    try:
        return DESCRIPTIONS[job](result)
    except (KeyError, TypeError, AttributeError, IndexError):
        return logging.INFO, "done"


def _ingest(document: dict[str, Any]) -> Line:
    return _ingests([document])


def _ingests(documents: list[dict[str, Any]]) -> Line:
    files, accepted, rejected = (sum(one[name] for one in documents) for name in ("files", "accepted", "rejected"))
    text = f"{counted(files, 'file')} ingested, {counted(accepted, 'row')} accepted"
    if rejected:
        reasons = {reason: 0 for one in documents for reason in one["rejects_by_reason"]}
        for one in documents:
            for reason, number in one["rejects_by_reason"].items():
                reasons[reason] += number
        text += f", {rejected:,} rejected ({', '.join(f'{number:,} {reason}' for reason, number in reasons.items())})"
    quarantined = sum(len(one.get("quarantined") or ()) for one in documents)
    if quarantined:
        text += f", {counted(quarantined, 'file')} quarantined"
    return (logging.WARNING if rejected or quarantined else logging.INFO), text


def _match(document: dict[str, Any]) -> Line:
    batches = document["batches"]
    text = f"{counted(len(batches), 'batch')}: {counted(document['objects'], 'object')}"
    text += f", {counted(document['matches'], 'match')}"
    if batches:
        seconds = sum(sum(batch["seconds"].values()) for batch in batches)
        text += f" in {duration(seconds)} under plan {batches[-1]['plan_version']}"
    return logging.INFO, text


def _micro_batch(document: dict[str, Any]) -> Line:
    ingests = list(document["ingest"].values())
    if not ingests and not document["match"]["batches"]:
        return logging.INFO, "nothing is new"
    level, text = _ingests(ingests)
    return level, f"{text}; {_match(document['match'])[1]}"


def _plan(document: dict[str, Any]) -> Line:
    size = f"{document['planner']}, {counted(document['workers'], 'worker')}, {counted(document['units'], 'unit')}"
    return logging.INFO, f"plan {document['plan_version']}: {size}; imbalance {imbalance_text(document['imbalance'])}"


def _check_balance(document: dict[str, Any]) -> Line:
    state = "out of balance" if document["violated"] else "balanced, or too few batches to be sure"
    measured = f"{counted(document['batches'], 'batch')}: imbalance {imbalance_text(document['measured_imbalance'])}"
    return logging.INFO, f"plan {document['plan_version']}, {measured}, {state}"


def _balance(document: dict[str, Any]) -> Line:
    if not document["moves"]:
        return logging.INFO, f"nothing to move: {document['reason']}"
    verb = "would move" if document["dry_run"] else "moved"
    versions = f"plan {document['plan_version_before']} to {document['plan_version_after']}"
    moved = counted(document["moved_subscriptions"], "subscription")
    return logging.INFO, f"{verb} {moved}, {versions}: {document['reason']}"


def _repartition(document: dict[str, Any]) -> Line:
    if document["moved_bytes"] is not None:
        return _balance(document)
    return logging.INFO, f"plan {document['plan_version_after']}, {document['reason']}"


def _replay(document: dict[str, Any]) -> Line:
    equal = "the same matches" if document["matches_equal"] else "OTHER matches than recorded"
    if document.get("answers_equal") is False:  # a home without answers has none to compare
        return logging.ERROR, f"batches up to {document['last_batch']} replayed: {equal}, OTHER answers than recorded"
    batches = f"{counted(document['batches'], 'batch')} up to {document['last_batch']}"
    return (logging.INFO if document["matches_equal"] else logging.ERROR), f"{batches} replayed: {equal}"


def _deliver(document: dict[str, Any]) -> Line:
    well = all(sink["state"] in names.UP_STATES and not sink["refused"] for sink in document["sinks"].values())
    text = "; ".join(_sink(name, sink) for name, sink in document["sinks"].items())
    return (logging.INFO if well else logging.WARNING), text or "no sink is configured"


def _sink(name: str, sink: dict[str, Any]) -> str:
    text = f"{name} ({sink['kind']}): {sink['state']}, {sink['delivered']:,} delivered, {sink['refused']:,} refused"
    text += f", {counted(sink['batches_left'], 'batch')} left" if sink["batches_left"] else ""
    return text + (f", {sink['reason']}" if sink["reason"] else "")


def _maintain(document: dict[str, Any]) -> Line:
    dropped, removed = counted(document["dropped_rows"], "ended index row"), counted(document["files_removed"], "file")
    files = f"index files {document['files_before']:,} to {document['files_after']:,}"
    snapshot = document["answer_snapshot"]
    rows = f"; snapshot of answers: {counted(snapshot['rows'], 'row')}" if snapshot else ""
    return logging.INFO, f"dropped {dropped}; {files}; removed {removed}{rows}"


def _check_tables(document: dict[str, Any]) -> Line:
    checks = document["checks"]
    failed = [one["check"] for one in checks if one["failed"]]
    if failed:
        return logging.ERROR, f"{len(failed)} of {counted(len(checks), 'check')} failed: {', '.join(failed)}"
    return logging.INFO, f"{counted(len(checks), 'check')} passed"


def _term_statistics(document: dict[str, Any]) -> Line:
    counts = f"{counted(document['objects'], 'object')} with {counted(document['terms'], 'term')}"
    return logging.INFO, f"version {document['version']}: {counts}"


def _pairs(document: dict[str, Any] | None) -> Line:
    if document is None:
        return logging.INFO, "nothing to do: the setting pairs_table is never"
    rows = f"{counted(document['rows'], 'row')}, {document['deleted']:,} retracted"
    return logging.INFO, f"batch {document['batch_from']:,} to {document['batch_to']:,}: {rows}"


def _quarantine(document: dict[str, Any]) -> Line:
    if "discarded" not in document:
        return _ingest(document)
    return logging.INFO, f"{counted(len(document['discarded']), 'file')} discarded"


def _ask(document: dict[str, Any]) -> Line:
    rows = f"more than {document['rows']:,} rows" if document["more"] else counted(document["rows"], "row")
    return logging.INFO, f"{document['kind']}: {rows} in {duration(document['seconds'])}"


def _answer_questions(document: dict[str, Any]) -> Line:
    if not document["files"]:
        return logging.INFO, "no file of questions is new"
    text = f"{counted(document['files'], 'file')}: {counted(document['questions'], 'question')}"
    text += f", {document['rejected']:,} rejected" if document["rejected"] else ""
    rows = f"{counted(document['rows'], 'row')} of answers"
    return (logging.WARNING if document["rejected"] else logging.INFO), f"{text}, {rows}"


def _status(document: dict[str, Any]) -> Line:
    totals, lag = document["totals"], document["lag"]["seconds"]
    batches, matches = counted(totals["batches"], "batch"), counted(totals["matches"], "match")
    return logging.INFO, f"{batches}, {matches}; lag {duration(lag)}"


DESCRIPTIONS: dict[str, Callable[[Any], Line]] = {
    "ingest": _ingest,
    "match": _match,
    "micro_batch": _micro_batch,
    "plan": _plan,
    "check_balance": _check_balance,
    "balance": _balance,
    "repartition": _repartition,
    "replay": _replay,
    "deliver": _deliver,
    "maintain": _maintain,
    "check_tables": _check_tables,
    "term_statistics": _term_statistics,
    "pairs": _pairs,
    "quarantine": _quarantine,
    "ask": _ask,
    "answer_questions": _answer_questions,
    "status": _status,
}
"""By job, as `airflow` names it: the description of its JSON document."""
