"""Describe which planner `auto` chose, and why; plans keep the choice in their options."""

from collections.abc import Mapping
from typing import Any


def planner_of(planner: str, options: Mapping[str, Any]) -> str:
    """Return the planner that made a plan of `planner` with these options: of `auto` the one that it chose."""
    return str(options["choice"]["planner"]) if "choice" in options else planner


def describe_choice(choice: dict[str, Any]) -> str:
    """Say in a line which planner was chosen, and the load of the slowest worker under each, the least first.

    choice  {"planner": name, "greatest_loads": {planner: predicted seconds of its most loaded worker}}
    """
    loads = choice["greatest_loads"].items()
    ranked = sorted(loads, key=lambda item: (item[1], item[0] != choice["planner"]))
    listed = ", ".join(f"{name} {seconds:.3g}" for name, seconds in ranked)
    return f"auto chose {choice['planner']}: the least seconds of the slowest worker on unseen objects, of {listed}"
