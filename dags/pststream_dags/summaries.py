"""From what a job counted to what Airflow keeps: small enough for an XCom and an asset's extra."""

from typing import Any

SUMS = ("objects", "discarded", "requests", "matches", "retractions")
LOADS = ("plan_version", "planner", "workers", "units", "load_total", "load_max", "load_min", "imbalance")


def summarize_batches(outcome: dict[str, Any]) -> dict[str, Any]:
    """Totals of a run's micro-batches and of what it ingested."""
    result = outcome["result"] or {}
    batches = (result.get("match") or {}).get("batches") or []
    ingests = list((result.get("ingest") or {}).values())
    summary: dict[str, Any] = {name: sum(batch.get(name) or 0 for batch in batches) for name in SUMS}
    summary |= {name: sum(ingest.get(name) or 0 for ingest in ingests) for name in ("files", "accepted", "rejected")}
    summary["rejects_by_reason"] = _add(ingest.get("rejects_by_reason") or {} for ingest in ingests)
    summary["batches"] = len(batches)
    summary["seconds"] = round(sum(sum((batch.get("seconds") or {}).values()) for batch in batches), 3)
    summary["batch_id"] = batches[-1].get("batch_id") if batches else None
    summary["plan_version"] = batches[-1].get("plan_version") if batches else None
    summary["table_version"] = result.get("table_version")
    return summary


def summarize_plan(outcome: dict[str, Any]) -> dict[str, Any]:
    """The loads of the plan that served until now (None if there is none) and of the new one."""
    result = outcome["result"] or {}
    before = result.get("before")
    return {"before": _loads(before) if before else None, "after": _loads(result), "seconds": result.get("seconds")}


def loads_table(summary: dict[str, Any]) -> str:
    """Before and after side by side, one figure a line."""
    before, after = summary["before"] or {}, summary["after"]
    rows = [(name, _text(before.get(name)), _text(after.get(name))) for name in LOADS]
    return "\n".join(f"{name:<13}{old:>16}{new:>16}" for name, old, new in [("", "before", "after"), *rows])


def summarize_balance(outcome: dict[str, Any]) -> dict[str, Any]:
    """What an adjustment moved, what that costs and gains, and the loads of the workers before and after."""
    result = outcome["result"] or {}
    kept = ("reason", "dry_run", "measured_imbalance", "moved_subscriptions", "moved_bytes", "moves", "load_before",
            "load_after", "seconds")  # fmt: skip
    summary = {name: result.get(name) for name in kept}
    return summary | {"plan_version": result.get("plan_version_after"), "gain": result.get("expected_gain", 0.0)}


def moves_table(summary: dict[str, Any]) -> str:
    """Why, a line for each move, and a line for each worker with a bar for its load before and after."""
    lines = [summary["reason"] or ""]
    if not summary["moves"]:
        return "\n".join([*lines, "nothing moves"])
    would = "would move" if summary["dry_run"] else "moved"
    lines.append(f"{would} {summary['moved_subscriptions']} subscriptions, about {summary['moved_bytes']} bytes")
    for move in summary["moves"]:
        terms = "" if move["terms"] is None else f"{move['terms']} terms of "
        lines.append(
            f"  {terms}{move['cells']} cells from worker {move['origin']} to {move['target']}, {move['reason']}"
        )
    most = max([*summary["load_before"], *summary["load_after"]], default=0.0) or 1.0
    for worker, loads in enumerate(zip(summary["load_before"], summary["load_after"])):
        for when, load in zip(("before", "after"), loads):
            lines.append(f"worker {worker:<5}{when:<7}{load:>12.6g}  {'#' * round(40 * load / most)}")
    return "\n".join(lines)


def _add(counts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for reason, number in one.items():
            total[reason] = total.get(reason, 0) + number
    return total


def _loads(plan: dict[str, Any]) -> dict[str, Any]:
    return {name: plan.get(name) for name in LOADS}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
