"""From what a job counted to what Airflow keeps: small enough for an XCom and an asset's extra."""

from typing import Any

MOST_BARS = 100
SUMS = ("objects", "discarded", "requests", "matches", "retractions")


def summarize_batches(outcome: dict[str, Any]) -> dict[str, Any]:
    """Totals of a run's micro-batches and of what it ingested."""
    result = outcome["result"] or {}
    batches = (result.get("match") or {}).get("batches") or []
    ingests = list((result.get("ingest") or {}).values())
    summary: dict[str, Any] = {name: sum(batch.get(name) or 0 for batch in batches) for name in SUMS}
    counts = ("files", "files_pending", "accepted", "rejected")
    summary |= {name: sum(ingest.get(name) or 0 for ingest in ingests) for name in counts}
    summary["rejects_by_reason"] = _add(ingest.get("rejects_by_reason") or {} for ingest in ingests)
    summary["batches"] = len(batches)
    summary["seconds"] = round(sum(sum((batch.get("seconds") or {}).values()) for batch in batches), 3)
    summary["batch_id"] = batches[-1].get("batch_id") if batches else None
    summary["plan_version"] = batches[-1].get("plan_version") if batches else None
    summary["table_version"] = result.get("table_version")
    summary["balance"] = result.get("balance")
    summary["home"] = result.get("home")
    return summary


def summarize_balance(outcome: dict[str, Any]) -> dict[str, Any]:
    """What a change of plan moves, what that costs and gains, and the loads of the workers before and after."""
    result = outcome["result"] or {}
    kept = ("kind", "reason", "dry_run", "plan_version_before", "measured_imbalance", "moved_subscriptions",
            "moved_bytes", "moves", "load_before", "load_after", "seconds")  # fmt: skip
    summary = {name: result.get(name) for name in kept}
    return summary | {"plan_version": result.get("plan_version_after"), "gain": result.get("expected_gain")}


def moves_table(summary: dict[str, Any]) -> str:
    """Why, a line for each move, and a line for each worker with a bar for its load before and after."""
    before, after = summary["plan_version_before"], summary["plan_version"]
    if after == before:
        return f"{summary['reason']}\nplan {before} stays"
    moved = summary["moved_subscriptions"], summary["moved_bytes"]
    lines = [summary["reason"], f"plan {before} to {after}"]
    if moved[0] is not None:
        lines.append(f"{moved[0]} subscriptions move, about {moved[1]} bytes; expected gain {summary['gain']:.1%}")
    for move in summary["moves"]:
        terms = "" if move["terms"] is None else f"{move['terms']} terms of "
        whence = f" from worker {move['origin']} to {move['target']}" if move["origin"] >= 0 else ""
        lines.append(f"  {terms}{move['cells']} cells{whence}, {move['reason']}")
    return "\n".join([*lines, *_load_bars(summary["load_before"], summary["load_after"])])


def _load_bars(before: list[float], after: list[float]) -> list[str]:
    most = max([*before, *after], default=0.0) or 1.0
    lines = [f"imbalance    {_imbalance(before)} before, {_imbalance(after)} after (greatest load over least)"]
    workers = max(len(before), len(after))
    if workers > MOST_BARS:
        lines.append(f"the first {MOST_BARS} of {workers} workers; the page shows all")
    for worker in range(min(workers, MOST_BARS)):
        for when, loads in (("before", before), ("after", after)):
            if worker < len(loads):
                load = loads[worker]
                lines.append(f"worker {worker:<5}{when:<7}{load:>12.6g}  {'#' * round(40 * load / most)}")
    return lines


def _imbalance(loads: list[float]) -> str:
    return f"{max(loads) / min(loads):.4g}" if loads and min(loads) > 0 else "-"


def _add(counts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for reason, number in one.items():
            total[reason] = total.get(reason, 0) + number
    return total
