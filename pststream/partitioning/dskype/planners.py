"""Make plans of `topk` subscriptions by the names of DSkype's partitioners (Skype, sections 7.3 and 8.2).

hash           by a hash of the subscription's key; the paper takes the id itself, modulo the units (section 7.3.1)
location       leaves of a kd-tree (7.3.2, Algorithm 3)
keyword        runs of words; a subscription at each unit with one of its words (7.3.3)
prefix         the same, for the words of its loose prefix alone (7.3.4)
spatial_first  leaves of a kd-tree, each divided by runs of words as `prefix` (8.2)
keyword_first  runs of words as `prefix`, each divided by a kd-tree of its own (8.2)
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pststream import names
from pststream.domain.topk_plan import HASH, SPACE_FIRST, WORDS_FIRST, TopkPlan, find_leaves
from pststream.errors import UsageError
from pststream.partitioning.dskype.search_costs import sum_costs
from pststream.partitioning.dskype.space_cuts import cut_space
from pststream.partitioning.dskype.topk_sample import TopkSample
from pststream.partitioning.dskype.word_cuts import cut_words
from pststream.partitioning.planner_contract import read_integer_options
from pststream.sorted_keys import distinct_values

HYBRIDS = ("spatial_first", "keyword_first")


def make_topk_plan(name: str, sample: TopkSample, units: int, options: Mapping[str, object] | None = None) -> TopkPlan:
    """Return the plan that a planner (`names.TOPK_PLANNERS`) makes of a sample: a pure function.

    options  of the hybrids: `first`, parts of the first level, a divisor of `units`; default: the greatest one of which
             the square is at most `units`

    Raises UsageError for an unknown planner or option, or for less than one unit.
    """
    way, first, second, is_prefix = levels = plan_levels(name, units, options or {})
    if way == HASH:
        return TopkPlan(name, *levels)
    if way == WORDS_FIRST:
        return _words_first(name, sample, first, second)
    return _space_first(name, sample, first, second, is_prefix)


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
    first = _first_level(name, units, options)
    if name in HYBRIDS:
        return Levels(WORDS_FIRST if name == "keyword_first" else SPACE_FIRST, first, units // first, True)
    if name in ("hash", "location"):
        return Levels(HASH if name == "hash" else SPACE_FIRST, units, 1, False)
    return Levels(SPACE_FIRST, 1, units, name == "prefix")


def _first_level(name: str, units: int, options: Mapping[str, object]) -> int:
    squares = [number for number in range(1, units + 1) if units % number == 0 and number * number <= units]
    defaults = {"first": squares[-1]} if name in HYBRIDS else {}
    first = read_integer_options(name, options, defaults).get("first", 1)
    if units % first:
        raise UsageError(f"option first of planner {name}: {first} does not divide {units} workers")
    return first


def _space_first(name: str, sample: TopkSample, leaves: int, runs: int, is_prefix: bool) -> TopkPlan:
    cuts = cut_space(_places(sample), _message_places(sample), leaves)
    plan = TopkPlan(name, SPACE_FIRST, leaves, runs, is_prefix, cuts[None])
    if runs == 1:
        return replace(plan, word_cuts=np.empty((leaves, 0), np.int64))
    plan = replace(plan, words=sample.words)
    owners, places = _stored(sample, plan)
    leaf = find_leaves(cuts, sample.lon, sample.lat)[owners]
    tables = [_cut(sample, places[leaf == number], runs) for number in range(leaves)]
    return replace(plan, word_cuts=np.stack(tables))


def _words_first(name: str, sample: TopkSample, runs: int, leaves: int) -> TopkPlan:
    plan = TopkPlan(name, WORDS_FIRST, runs, leaves, True, words=sample.words)
    owners, places = _stored(sample, plan)
    cuts = _cut(sample, places, runs)
    stored, sent = (np.searchsorted(cuts, one, "right") for one in (places, plan.places(sample.message_terms)))
    trees = []
    for run in range(runs):
        inside = _places(sample)[distinct_values(owners[stored == run])]
        messages = _message_places(sample)[distinct_values(sample.message_owners[sent == run])]
        trees.append(cut_space(inside, messages, leaves))
    return replace(plan, word_cuts=cuts[None], space_cuts=np.stack(trees))


def _stored(sample: TopkSample, plan: TopkPlan) -> tuple[np.ndarray, np.ndarray]:
    """Return the postings of the plan: the subscription of each, and the place of the word: int64[m] each."""
    chosen = sample.in_prefix if plan.is_prefix else slice(None)
    return sample.owners[chosen], plan.places(sample.terms[chosen])


def _cut(sample: TopkSample, places: np.ndarray, runs: int) -> np.ndarray:
    postings = np.bincount(places, minlength=len(sample.words)) * sample.subscription_scale
    return cut_words(sum_costs(sample.shares, postings), runs)


def _places(sample: TopkSample) -> np.ndarray:
    return np.column_stack([sample.lon, sample.lat])


def _message_places(sample: TopkSample) -> np.ndarray:
    return np.column_stack([sample.message_lon, sample.message_lat])
