"""Find the plan that a replay tries: the one in force, an older version, or that of a proposal; save it in a home."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.errors import UsageError
from pststream.pipeline.index.place_pieces import INDEX_BUILT, REBUILD, read_counts, read_state, save_counts, save_start
from pststream.pipeline.replan.measured_loads import plan_after_undo
from pststream.pipeline.replan.proposal_file import digest_of, read_proposal
from pststream.pipeline.replan.recorded_batches import ChosenBatches
from pststream.plans.plan import PartitionPlan, SubscriptionPlan
from pststream.state.home import Home
from pststream.state.plans import (
    current_version,
    find_plan_row,
    index_version,
    load_plan,
    read_plan_row,
    save_plan,
    save_units,
    save_vocabulary,
)
from pststream.tables.delta_tables import read_table

FIGURES = ("load_total", "load_max", "load_min", "imbalance", "seconds")


@dataclass(frozen=True)
class TriedPlan:
    """A plan under which batches are replayed.

    version     its version in the scratch home; in the home too, if it is stored there
    stored      whether the home has it
    index       version of the vocabulary in the home that ranks the terms of its index
    placement   version of the counts in the home by which it places subscriptions; 0: it shares otherwise
    """

    plan: PartitionPlan
    version: int
    stored: bool
    index: int
    placement: int = 0


def stored_plan(home: Home, version: int | None) -> TriedPlan:
    """Return a plan of the home; None: the one in force, of two active plans the newer one."""
    version = current_version(home) if version is None else version
    if version == 0:
        raise UsageError("there is no plan yet", "run: pststream match, which makes the first one")
    row = find_plan_row(home, version)
    if row is None:
        raise UsageError(f"plan {version} does not exist", "see: pststream plans list")
    placement = row["placement_version"] or 0
    return TriedPlan(load_plan(home, version), version, True, index_version(home, version), placement)


def plan_of_first(home: Home, chosen: ChosenBatches) -> TriedPlan:
    """Return the plan of the first batch, as the regions' part of a plan that the home does not have."""
    return replace(stored_plan(home, chosen.first["plan_version"]), stored=False)


def proposed_plan(home: Home, path: Path) -> TriedPlan:
    """Return the plan that a proposal makes, for all subscriptions: as if no older plan served any of them."""
    proposal = read_proposal(path)
    before, adjustment = proposal.plan_version, proposal.decision.adjustment
    if find_plan_row(home, before) is None or digest_of(load_plan(home, before)) != proposal.digest:
        raise UsageError("the proposal changes a plan of another home", "give a proposal that was made for this home")
    if adjustment is None:
        raise UsageError(f"the proposal changes nothing: {proposal.decision.reason}", "give another proposal")
    placement = 0
    if isinstance(adjustment.plan, SubscriptionPlan):  # only an undo makes such a plan
        placement = read_plan_row(home, plan_after_undo(home, before)[0])["placement_version"]
    return TriedPlan(adjustment.plan, before + 1, False, index_version(home, before), placement)


def save_tried_plan(home: Home, scratch: Home, tried: TriedPlan) -> None:
    """Put the plan in force in the scratch home, with an index of its own, still empty."""
    zeros = np.zeros(tried.plan.units)
    save_units(scratch, tried.version, tried.plan, dict.fromkeys(("load", "objects", "subscriptions"), zeros))
    of_index = pds.field("plan_version") == tried.index
    vocabulary = read_table(home.table(names.VOCABULARY), filter=of_index).drop_columns(["plan_version"])
    save_vocabulary(scratch, tried.version, vocabulary)
    if tried.placement:
        counts = read_counts(home, tried.placement, tried.plan.grid)
        save_counts(scratch, tried.version, counts)
        present_to = read_state(home, tried.placement, INDEX_BUILT, REBUILD).present_to
        save_start(scratch, tried.version, present_to, counts.object_scale, tried.plan.units)
    figures = dict.fromkeys(FIGURES, 0.0) | {"worker_loads": [0.0] * tried.plan.workers, "options": {}}
    save_plan(scratch, tried.version, tried.plan, figures, placement=tried.version if tried.placement else None)
