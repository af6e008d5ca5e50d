"""Make plans of `topk` subscriptions by the names of DSkype's partitioners (Skype, sections 7.3 and 8.2).

hash           by a hash of the subscription's key; the paper takes the id itself, modulo the units (section 7.3.1)
location       leaves of a kd-tree (7.3.2, Algorithm 3)
keyword        runs of words; a subscription at each unit with one of its words (7.3.3; Algorithm 4 by `cost=product`)
prefix         the same, for the words of its loose prefix alone (7.3.4)
spatial_first  leaves of a kd-tree, each divided by runs of words as `prefix` (8.2)
keyword_first  runs of words as `prefix`, each divided by a kd-tree of its own (8.2)
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pststream.base import names
from pststream.base.arrays import distinct_values
from pststream.base.errors import UsageError
from pststream.planning.papers.topk_cuts import Words, cut_space, cut_words, cut_words_by_product
from pststream.planning.papers.topk_sample import TopkSample, sum_costs
from pststream.planning.planners.contract import read_choice, read_integer_options
from pststream.plans.topk_plan import HASH, SPACE_FIRST, WORDS_FIRST, TopkPlan, find_leaves

HYBRIDS = ("spatial_first", "keyword_first")
BY_WORDS = ("keyword", "prefix", *HYBRIDS)
"""Planners that divide words."""

COSTS = ("search", "product")
"""What makes runs of words even: the estimated cost of their searches (`cut_words`, the default), or C = N x p and
Algorithm 4 as in the paper (`cut_words_by_product`).
"""


def make_topk_plan(name: str, sample: TopkSample, units: int, options: Mapping[str, object] | None = None) -> TopkPlan:
    """Return the plan that a planner (`names.TOPK_PLANNERS`) makes of a sample: a pure function.

    options  of the planners that divide words: `cost`, one of COSTS; of the hybrids: `first`, parts of the first level,
             a divisor of `units`; default: the greatest one of which the square is at most `units`

    Raises UsageError for an unknown planner or option, or for less than one unit.
    """
    chosen = options or {}
    way, first, second, is_prefix = levels = plan_levels(name, units, chosen)
    cost = read_choice(name, chosen, "cost", COSTS)
    if way == HASH:
        return TopkPlan(name, *levels)
    if way == WORDS_FIRST:
        return _words_first(name, sample, first, second, cost)
    return _space_first(name, sample, first, second, is_prefix, cost)


class Levels(NamedTuple):
    """The levels of a plan, see TopkPlan."""

    way: str
    first: int
    second: int
    is_prefix: bool


def plan_levels(name: str, units: int, options: Mapping[str, object]) -> Levels:
    """Return the levels of the plan that a planner makes of any sample. Arguments and errors: see `make_topk_plan`."""
    if name not in names.TOPK_PLANNERS:
        raise UsageError(f"planner {name!r} is unknown", "for topk one of: " + ", ".join(names.TOPK_PLANNERS))
    if units < 1:
        raise UsageError(f"a plan needs at least 1 worker, not {units}")
    squares = [number for number in range(1, units + 1) if units % number == 0 and number * number <= units]
    defaults = {"first": squares[-1]} if name in HYBRIDS else {}
    first = read_integer_options(name, options, defaults, ("cost",) if name in BY_WORDS else ()).get("first", 1)
    if units % first:
        raise UsageError(f"option first of planner {name}: {first} does not divide {units} workers")
    read_choice(name, options, "cost", COSTS)
    if name in HYBRIDS:
        return Levels(WORDS_FIRST if name == "keyword_first" else SPACE_FIRST, first, units // first, True)
    if name in ("hash", "location"):
        return Levels(HASH if name == "hash" else SPACE_FIRST, units, 1, False)
    return Levels(SPACE_FIRST, 1, units, name == "prefix")


def _space_first(name: str, sample: TopkSample, leaves: int, runs: int, is_prefix: bool, cost: str) -> TopkPlan:
    cuts = cut_space(sample.points, sample.message_points, leaves)
    plan = TopkPlan(name, SPACE_FIRST, leaves, runs, is_prefix, cuts[None])
    if runs == 1:
        return replace(plan, word_cuts=np.empty((leaves, 0), np.int64))
    plan = replace(plan, words=sample.words)
    stored = _stored(sample, plan)
    leaf = find_leaves(cuts, sample.lon, sample.lat)[stored.owners]
    of_leaves = [Words(*(one[leaf == number] for one in stored)) for number in range(leaves)]
    tables = [_cut_words(sample, plan, words, runs, cost) for words in of_leaves]
    return replace(plan, word_cuts=np.stack(tables))


def _words_first(name: str, sample: TopkSample, runs: int, leaves: int, cost: str) -> TopkPlan:
    plan = TopkPlan(name, WORDS_FIRST, runs, leaves, True, words=sample.words)
    stored, sent = _stored(sample, plan), _sent(sample, plan)
    cuts = _cut_words(sample, plan, stored, runs, cost)
    run_stored, run_sent = (np.searchsorted(cuts, one.places, "right") for one in (stored, sent))
    trees = []
    for run in range(runs):
        points = sample.points[distinct_values(stored.owners[run_stored == run])]
        messages = sample.message_points[distinct_values(sent.owners[run_sent == run])]
        trees.append(cut_space(points, messages, leaves))
    return replace(plan, word_cuts=cuts[None], space_cuts=np.stack(trees))


def _stored(sample: TopkSample, plan: TopkPlan) -> Words:
    """Return the words under which the plan holds subscriptions."""
    chosen = sample.in_prefix if plan.is_prefix else slice(None)
    return Words(sample.owners[chosen], plan.places(sample.terms[chosen]))


def _sent(sample: TopkSample, plan: TopkPlan) -> Words:
    return Words(sample.message_owners, plan.places(sample.message_terms))


def _cut_words(sample: TopkSample, plan: TopkPlan, stored: Words, runs: int, cost: str) -> np.ndarray:
    """Return the first place of each run but the first: int64[runs - 1], for subscriptions held under some words."""
    if cost == "product":
        return cut_words_by_product(stored, _sent(sample, plan), len(plan.words), runs)
    postings = np.bincount(stored.places, minlength=len(plan.words)) * sample.subscription_scale
    return cut_words(sum_costs(sample.shares, postings), runs)
