"""Reduce the JSON result of a job to the figures of its XCom and asset event, and print moves and loads as text."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from pststream.base.texts import byte_size, counted
from pststream.plans.imbalance import imbalance_of, imbalance_text

Figures = TypeVar("Figures", "IngestFigures", "AnsweredFigures")
MAX_BARS = 100
REPLAYED = (
    "plan_versions", "objects", "requests", "matches", "objects_sent", "duplicates", "discarded", "candidates",
    "subscriptions_stored", "load_total", "max_seconds", "imbalance", "worker_seconds",
)  # fmt: skip
"""Figures of a replay in its XCom."""
SUMS = ("objects", "discarded", "requests", "matches", "retractions")
INGEST_SUMS = ("files", "files_pending", "accepted", "rejected")


@dataclass(frozen=True)
class IngestFigures:
    """The ingest of a kind of files; what an earlier try has ingested comes without files that wait and Data Docs."""

    files: int
    accepted: int
    rejected: int
    rejects_by_reason: dict[str, int]
    files_pending: int = 0
    data_docs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AnsweredFigures:
    """Answered files of questions; seconds: by step."""

    files: int = 0
    questions: int = 0
    rejected: int = 0
    rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, Any]:
        """The counts, and the seconds of all steps."""
        return {**vars(self), "seconds": round(sum(self.seconds.values()), 3)}


def _read(figures: type[Figures], document: dict[str, Any]) -> Figures:
    """Return the figures with the values of a document, which has more of them."""
    return figures(**{one.name: document[one.name] for one in fields(figures) if one.name in document})


def summarize_batches(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the totals of a run's micro-batches and ingests.

    `balance` is the result of `pststream balance check`, None if there was no batch.
    """
    document = outcome["result"]
    ingests = [_read(IngestFigures, ingest) for ingest in document["ingest"].values()]
    batches, reasons = document["match"]["batches"], Counter[str]()
    last = batches[-1] if batches else {"batch_id": None, "plan_version": None}
    for ingest in ingests:
        reasons.update(ingest.rejects_by_reason)
    return {
        **{name: sum(batch[name] for batch in batches) for name in SUMS},
        **{name: sum(getattr(ingest, name) for ingest in ingests) for name in INGEST_SUMS},
        "data_docs": [page for ingest in ingests for page in ingest.data_docs],
        "rejects_by_reason": dict(reasons),
        "batches": len(batches),
        "seconds": round(sum(sum(batch["seconds"].values()) for batch in batches), 3),
        **{name: last[name] for name in ("batch_id", "plan_version")},
        "table_version": document["table_version"],
        "balance": document.get("balance"),
        "home": document.get("home"),
        "answered": _read(AnsweredFigures, document.get("questions", {})).counts,
    }


def summarize_answers(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of answered files of questions, all seconds, and the version of the table."""
    document = outcome["result"]
    return _read(AnsweredFigures, document).counts | {"table_version": document["table_version"]}


def summarize_balance(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the moves of a plan change, their cost and gain, and the loads of the workers before and after."""
    result = outcome["result"] or {}
    fields = ("kind", "reason", "dry_run", "plan_version_before", "measured_imbalance", "moved_subscriptions",
            "moved_bytes", "least_bytes", "moves", "load_before", "load_after", "seconds")  # fmt: skip
    summary = {name: result.get(name) for name in fields}
    imbalances = [_imbalance(summary[name] or []) for name in ("load_before", "load_after")]
    gained = {"plan_version": result.get("plan_version_after"), "gain": result.get("expected_gain")}
    return summary | gained | {"imbalances": imbalances}


def summarize_replay(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the batches, the plan, and the figures that were recorded and those under the plan (`would_be`)."""
    result = outcome["result"] or {}
    fields = ("batches", "first_batch", "last_batch", "plan", "matches_equal", "seconds")
    sides = {side: {name: result[side][name] for name in REPLAYED} for side in ("was", "would_be") if side in result}
    return {name: result.get(name) for name in fields} | sides


def moves_table(summary: dict[str, Any]) -> str:
    """Return a text: the reason, a line for each move, and a bar for the load of each worker before and after."""
    before, after = summary["plan_version_before"], summary["plan_version"]
    if after == before:
        return f"{summary['reason']}\nplan {before} stays in force"
    moved = summary["moved_subscriptions"], summary["moved_bytes"]
    lines = [summary["reason"], f"plan {before} to {after}"]
    if moved[0] is not None:
        lines.append(
            f"{counted(moved[0], 'subscription')} to move, about {byte_size(moved[1])};"
            f" expected gain {summary['gain']:.1%}"
        )
    full = summary.get("cut", {})
    for move in summary["moves"]:
        terms = "" if move["terms"] is None else f"{counted(move['terms'], 'term')} of "
        workers = f" from worker {move['origin']} to {move['target']}" if move["origin"] >= 0 else ""
        lines.append(f"  {terms}{counted(move['cells'], 'raster cell')}{workers}, {move['reason']}")
    if "moves" in full:
        lines.append(f"  the first {len(summary['moves'])} of {full['moves']} moves; the page shows all of them")
    was, will_be = summary["imbalances"]
    lines.append(f"imbalance    {was} before, {will_be} after (greatest load over least)")
    before, after = summary["load_before"], summary["load_after"]
    workers = max(full.get("load_before", len(before)), full.get("load_after", len(after)))
    return "\n".join([*lines, *_load_bars(before, after, workers)])


def _load_bars(before: list[float], after: list[float], workers: int) -> list[str]:
    most = max([*before, *after], default=0.0) or 1.0
    lines = []
    if workers > MAX_BARS:
        lines.append(f"the first {MAX_BARS} of {workers} workers; the page shows all of them")
    for worker in range(min(workers, MAX_BARS)):
        for when, loads in (("before", before), ("after", after)):
            if worker < len(loads):
                load = loads[worker]
                lines.append(f"worker {worker:<5}{when:<7}{load:>12.6g}  {'#' * round(40 * load / most)}")
    return lines


def _imbalance(loads: list[float]) -> str:
    return imbalance_text(imbalance_of(loads)) if loads else "-"
