"""Load adjustment as commands: look at the measured balance, decide, show, apply; and take back (PS2Stream section V).

An adjustment makes a new plan version that is served from the index of the one before
(pipeline/adjusting/migrate.py). Its rows
in `migrations` and `plan_units` are written first; the row in `plans` switches.
"""

import json
import time
from pathlib import Path
from typing import Any

from pststream import names
from pststream.balancing.local_adjustment import Adjustment
from pststream.errors import RetryableError, UsageError
from pststream.pipeline.adjusting.decide import DECIDERS
from pststream.pipeline.adjusting.migrate import migrate
from pststream.pipeline.adjusting.proposal import (
    Decision,
    Proposal,
    digest_of,
    read_proposal,
    same_plan,
    write_proposal,
)
from pststream.pipeline.adjusting.two_plans import next_step
from pststream.pipeline.engine.task_context import make_task_context
from pststream.progress import Progress, no_progress
from pststream.reports.pages.adjustment_page import write_adjustment
from pststream.settings import Settings
from pststream.state import ledger_tables
from pststream.state.crash_points import crash_point
from pststream.state.home import Home
from pststream.state.ledger import Ledger
from pststream.state.plans import (
    Retiring,
    current_version,
    index_version,
    load_plan,
    plan_row,
    retiring_plan,
    save_plan,
    save_units,
)


def balance(
    home: Home,
    settings: Settings,
    kind: str,
    *,
    method: str = "gr",
    dry_run: bool = False,
    proposal: Path | None = None,
    page: Path | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Adjust the plan: `local` moves cells; `global` makes a new partitioning for the subscriptions to come, and once
    few are left under the old one retires that; `retire` does so at once; `undo` takes the last adjustment back.

    proposal  a dry run writes here what it would do; without a dry run that is done, and nothing is decided anew
    page      HTML on what moves, written if something does

    Returns {"kind", "dry_run", "plan_version_before", "plan_version_after", "retiring_version", "reason",
    "measured_imbalance", "moved_subscriptions", "moved_bytes", "load_before", "load_after" (seconds, of each worker),
    "expected_gain", "moves": [{"origin", "target", "cells", "terms", "reason"}], "seconds"}. A dry run returns the same
    and changes nothing. Without a violated balance, or without a move that helps, nothing is changed either:
    `plan_version_after` is then that before, and `reason` says why.
    """
    home.check()
    began = time.perf_counter()
    with home.locked():
        version = current_version(home)
        if version == 0:
            raise UsageError("there is no plan yet", "run: pststream match, which makes the first one")
        if Ledger(home).unfinished_batch() is not None:
            raise RetryableError("a batch was left unfinished", f"run: pststream match, then balance {kind} again")
        if proposal is None or dry_run:
            decision = DECIDERS[kind](home, settings, version, method, progress)
            document = _carry_out(home, settings, version, kind, decision, dry_run)
        else:
            kept = read_proposal(proposal)
            decision = kept.decision
            document = _carry_out_proposal(home, settings, version, kind, kept)
        document |= {"kind": kind, "dry_run": dry_run}
        if proposal is not None and dry_run:
            write_proposal(proposal, Proposal(kind, version, digest_of(load_plan(home, version)), decision))
        if page is not None and decision.adjustment is not None:
            before = load_plan(home, _changed(home, document))
            write_adjustment(page, home.path, document, before, decision.adjustment.plan)
    return {**document, "seconds": round(time.perf_counter() - began, 3)}


def _changed(home: Home, document: dict[str, Any]) -> int:
    """The plan whose subscriptions move: of two active ones that which is retired."""
    row = plan_row(home, document["plan_version_before"])
    retired = row["retiring_version"] if document["kind"] in ("global", "retire") else None
    return int(row["plan_version"] if retired is None else retired)


def _carry_out(
    home: Home, settings: Settings, version: int, kind: str, decision: Decision, dry_run: bool
) -> dict[str, Any]:
    found = decision.adjustment
    if found is None:
        return _told(decision, version, 0, 0, retiring_plan(plan_row(home, version)))
    work = make_task_context(home, settings, version)
    named = {move.origin for move in found.moves}
    origins = set(range(work.workers)) if -1 in named else named
    step, retiring = next_step(home, version, kind)
    rows, size = migrate(home, settings, work, found.plan, origins, retiring.to if retiring else -1, dry_run)
    crash_point("balance.indexed")
    told = _told(decision, version, rows, size, retiring)
    if not dry_run:
        _save(home, version, step, retiring, found, told)
    return told


def _carry_out_proposal(home: Home, settings: Settings, version: int, kind: str, proposal: Proposal) -> dict[str, Any]:
    """Do what was proposed; if it has been done already and nothing since, say so again."""
    if proposal.kind != kind:
        raise UsageError(f"the proposal is of kind {proposal.kind}", f"run: pststream balance {proposal.kind}")
    before, found = proposal.plan_version, proposal.decision.adjustment
    if before == version and proposal.digest == digest_of(load_plan(home, version)):
        return _carry_out(home, settings, version, kind, proposal.decision, dry_run=False)
    rows = ledger_tables.read(home, names.MIGRATIONS, filters=[("plan_version", "=", version)]).to_pylist()
    if found and rows and before == version - 1 and same_plan(load_plan(home, version), found.plan):
        retiring = retiring_plan(plan_row(home, version))
        return _told(proposal.decision, before, rows[0]["subscriptions"], rows[0]["bytes"], retiring)
    other = f"the proposal changes plan {before}, and plan {version} is in force"
    raise UsageError(
        "the proposal changes a plan of another home" if before == version else other,
        f"make it anew: pststream balance {kind} --dry-run --proposal FILE",
    )


def _told(decision: Decision, version: int, rows: int, size: int, retiring: Retiring | None) -> dict[str, Any]:
    """What a command says of a decision on plan `version`, and of the rows that move, about `size` bytes; retiring: the
    plan that goes on serving older subscriptions.
    """
    told: dict[str, Any] = {
        "plan_version_before": version,
        "plan_version_after": version,
        "retiring_version": retiring.plan_version if retiring else None,
        "reason": decision.reason,
        "measured_imbalance": round(decision.imbalance, 4),
        "moved_subscriptions": rows,
        "moved_bytes": size,
        "load_before": [],
        "load_after": [],
        "moves": [],
    }
    found = decision.adjustment
    if found is None:
        return told
    return told | {
        "plan_version_after": version + 1,
        "load_before": found.before.load.tolist(),
        "load_after": found.after.load.tolist(),
        "expected_gain": round(1 - found.after.max / found.before.max, 4) if found.before.max else 0.0,
        "moves": [
            {"origin": m.origin, "target": m.target, "cells": len(m.cells), "reason": reason,
             "terms": None if m.terms is None else len(m.terms)}
            for m, reason in zip(found.moves, found.reasons)
        ],
    }  # fmt: skip


def _save(
    home: Home, version: int, kind: str, retiring: Retiring | None, found: Adjustment, told: dict[str, Any]
) -> None:
    """Units and migration of the new plan, then its row: from there on it is in force."""
    new, loads = version + 1, found.after
    for name in (names.PLAN_UNITS, names.MIGRATIONS):
        ledger_tables.delete(home, name, f"plan_version >= {new}")
    columns = {"load": loads.unit_load, "objects": loads.unit_objects, "subscriptions": loads.unit_subscriptions}
    save_units(home, new, found.plan, columns)
    ledger_tables.append(home, names.MIGRATIONS, _rows(version, kind, found, told))
    crash_point("balance.units_written")
    options = json.loads(plan_row(home, version)["options"])
    figures = {**loads.figures, "options": options, "seconds": 0.0}
    save_plan(home, new, found.plan, figures, index_version(home, version), retiring)
    crash_point("balance.done")


def _rows(version: int, kind: str, found: Adjustment, told: dict[str, Any]) -> list[dict[str, Any]]:
    shared = {
        "plan_version": version + 1, "plan_version_before": version, "kind": kind, "at": ledger_tables.now(),
        "subscriptions": told["moved_subscriptions"], "bytes": told["moved_bytes"],
        "expected_gain": told["expected_gain"], "load_before": told["load_before"], "load_after": told["load_after"],
    }  # fmt: skip
    return [
        {**shared, "move": number, "reason": reason, "origin": move.origin, "target": move.target,
         "cells": move.cells.tolist(), "terms": None if move.terms is None else move.terms.tolist()}
        for number, (move, reason) in enumerate(zip(found.moves, found.reasons))
    ]  # fmt: skip
