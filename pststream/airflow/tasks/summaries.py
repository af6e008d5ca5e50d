"""Reduce the JSON result of a job to the figures of its XCom and asset event, and print moves and loads as text."""

from typing import Any

from pststream.domain.imbalance import imbalance_of, imbalance_text
from pststream.format_values import byte_size, counted

MAX_BARS = 100
REPLAYED = (
    "plan_versions", "objects", "requests", "matches", "objects_sent", "duplicates", "discarded", "candidates",
    "subscriptions_stored", "load_total", "max_seconds", "imbalance", "worker_seconds",
)  # fmt: skip
"""Figures of a replay in its XCom."""
ANSWERED = ("files", "questions", "rejected", "rows")
"""Counts of answered files of questions."""

SUMS = ("objects", "discarded", "requests", "matches", "retractions")


def summarize_batches(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the totals of a run's micro-batches and ingests."""
    result = outcome["result"] or {}
    batches = (result.get("match") or {}).get("batches") or []
    ingests = list((result.get("ingest") or {}).values())
    summary: dict[str, Any] = {name: sum(batch.get(name) or 0 for batch in batches) for name in SUMS}
    counts = ("files", "files_pending", "accepted", "rejected")
    summary |= {name: sum(ingest.get(name) or 0 for ingest in ingests) for name in counts}
    summary["data_docs"] = [page for ingest in ingests for page in ingest.get("data_docs") or ()]
    summary["rejects_by_reason"] = _add(ingest.get("rejects_by_reason") or {} for ingest in ingests)
    summary["batches"] = len(batches)
    summary["seconds"] = round(sum(sum((batch.get("seconds") or {}).values()) for batch in batches), 3)
    summary["batch_id"] = batches[-1].get("batch_id") if batches else None
    summary["plan_version"] = batches[-1].get("plan_version") if batches else None
    summary["table_version"] = result.get("table_version")
    summary["balance"] = result.get("balance")
    summary["home"] = result.get("home")
    summary["answered"] = summarize_answers(result.get("questions") or {})
    return summary


def summarize_answers(document: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of answered files of questions, and the seconds of all their steps."""
    counts = {name: document.get(name) or 0 for name in ANSWERED}
    return counts | {"seconds": round(sum((document.get("seconds") or {}).values()), 3)}


def summarize_balance(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the moves of a plan change, their cost and gain, and the loads of the workers before and after."""
    result = outcome["result"] or {}
    fields = ("kind", "reason", "dry_run", "plan_version_before", "measured_imbalance", "moved_subscriptions",
            "moved_bytes", "moves", "load_before", "load_after", "seconds")  # fmt: skip
    summary = {name: result.get(name) for name in fields}
    return summary | {"plan_version": result.get("plan_version_after"), "gain": result.get("expected_gain")}


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
    for move in summary["moves"]:
        terms = "" if move["terms"] is None else f"{counted(move['terms'], 'term')} of "
        workers = f" from worker {move['origin']} to {move['target']}" if move["origin"] >= 0 else ""
        lines.append(f"  {terms}{counted(move['cells'], 'raster cell')}{workers}, {move['reason']}")
    return "\n".join([*lines, *_load_bars(summary["load_before"], summary["load_after"])])


def _load_bars(before: list[float], after: list[float]) -> list[str]:
    most = max([*before, *after], default=0.0) or 1.0
    lines = [f"imbalance    {_imbalance(before)} before, {_imbalance(after)} after (greatest load over least)"]
    workers = max(len(before), len(after))
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


def _add(counts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for reason, number in one.items():
            total[reason] = total.get(reason, 0) + number
    return total
