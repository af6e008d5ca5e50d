"""Count how often phase I of the local adjustment acts when Q1 changes to Q2, and what it saves of the sum of loads."""

from itertools import product
from typing import Any

from benchmarks.support.paper_workloads import DEFINITION_1, draw_synthetic_sample
from pststream.base.progress import Progress, Steps
from pststream.planning.balancing.local_adjustment import PHASE_ONE, adjust_locally
from pststream.planning.load_model import CostModel
from pststream.planning.planners.registry import make_plan
from pststream.settings import Settings
from pststream.workloads.draw_subscriptions import SubscriptionStyle

SIZES = {"small": (4_000, 4_000), "full": (40_000, 40_000)}
"""Objects and subscriptions."""

PLANNERS = ("kd_tree", "grid", "hybrid", "metric")
SHARES = {"paper": 1.0, "rare": 0.3}
"""The `frequent_share` of the keywords."""

CONNECTIVES = ("and", "both")
SIGMA = 1.05


def run(scale: str, seed: int, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Plan for Q1, then adjust the plan for Q2: moves of both phases, and changes of the sum of the loads.

    `share_saved`: what the moves of phase I take off the sum, as a share of it; `total_over_before`: the sum after all
    moves over the sum before. Both by Definition 1 alone and by the constants in the settings.
    """
    objects, subscriptions = SIZES[scale]
    figures: dict[str, Any] = {"objects": objects, "subscriptions": subscriptions, "sigma": SIGMA, "calls": 0}
    models = {"definition_1": DEFINITION_1, "settings": CostModel.of(settings)}
    steps = Steps(progress, len(models) * len(SHARES) * len(CONNECTIVES) * len(PLANNERS))
    acted = 0
    for (share, frequent), connective in product(SHARES.items(), CONNECTIVES):
        styles = (SubscriptionStyle(kind, connective, frequent_share=frequent) for kind in ("q1", "q2"))
        before, after = (draw_synthetic_sample(objects, subscriptions, seed, style) for style in styles)
        for (model, cost), planner in product(models.items(), PLANNERS):
            plan = make_plan(planner, before, settings.workers, cost)
            adjustment = adjust_locally(after, plan, cost, "gr", SIGMA)
            first = [saved for saved, why in zip(adjustment.saved, adjustment.reasons) if why in PHASE_ONE]
            name = f"{model}_{share}_{connective}_{planner}"
            figures[f"{name}_phase_one_moves"] = len(first)
            figures[f"{name}_phase_two_moves"] = len(adjustment.moves) - len(first)
            figures[f"{name}_share_saved"] = round(sum(first) / adjustment.before.total, 4)
            figures[f"{name}_total_over_before"] = round(adjustment.after.total / adjustment.before.total, 4)
            figures["calls"] += 1
            acted += bool(first)
            steps.end(f"{name}: {len(first)} moves of phase I, {len(adjustment.moves) - len(first)} of phase II")
    figures["calls_in_which_phase_one_acts"] = acted
    return {"figures": figures, "floor": {}, "targets": {}}
