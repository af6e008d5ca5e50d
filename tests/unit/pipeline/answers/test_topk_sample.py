"""Planners of `topk` see of messages the words by which they are sent: those that a sampled subscription has."""

import random

import numpy as np

from pststream.pipeline.answers.unit_candidates import DrawnTopk
from pststream.planning.papers.topk_planners import make_topk_plan
from pststream.planning.papers.topk_sample import count_loads
from tests.unit.answers.scored_index_worlds import as_messages, as_subscriptions, random_world


def test_words_that_no_subscription_has_do_not_count() -> None:
    made, sent, weights = random_world(random.Random(3), 4, 60)
    subscriptions, messages = as_subscriptions(made, weights), as_messages(sent, weights)
    drawn = DrawnTopk(subscriptions, messages, 2.0)
    known = set(subscriptions.terms.tolist())
    assert not known >= set(messages.terms.tolist())
    sample, borders = drawn.sample, messages.offsets.tolist()
    expected = [[term for term in messages.terms[a:b].tolist() if term in known] for a, b in zip(borders, borders[1:])]
    parts = np.split(sample.message_terms, sample.message_offsets[1:-1])
    assert [part.tolist() for part in parts] == expected
    assert sample.subscription_scale == 2.0 and sample.messages == len(messages.key)
    plan = make_topk_plan("keyword", sample, 3)
    owned = sum(int(plan.owns(unit, part).any()) for part in parts for unit in range(3))
    assert count_loads(sample, plan).messages.sum() == owned
