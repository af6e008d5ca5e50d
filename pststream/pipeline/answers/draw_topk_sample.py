"""Draw the sample of the planners of `topk`: live subscriptions with their logged thresholds, and stored objects."""

from functools import partial
from typing import NamedTuple

import numpy as np

from pststream.answers.scored_index import Messages, ScoredSubscriptions
from pststream.answers.topk_units import as_sample
from pststream.base import names
from pststream.base.arrays import hash_to_unit, is_among
from pststream.base.arrow_columns import csr, one_array
from pststream.base.errors import UsageError
from pststream.base.progress import Progress
from pststream.base.texts import counted
from pststream.engine.running_engine import get_engine
from pststream.pipeline.answers.answer_context import AnswerContext, context_after
from pststream.pipeline.answers.scored_candidates import as_subscriptions
from pststream.pipeline.answers.unit_changes import ended_since, read_thresholds
from pststream.pipeline.index.stored_pieces import has_standing_queries
from pststream.pipeline.planning.draw_sample import SEED, draw_objects
from pststream.planning.papers.topk_sample import TopkSample
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.tables.ledgers import Ledger

NO_ANSWER = (
    "no topk subscription has an answer yet",
    f"run: pststream match, then plan again; the plan of regions is made with --kinds {names.REGION_KINDS}",
)


class DrawnTopk(NamedTuple):
    """Sampled subscriptions, stored objects as messages, and the live subscriptions for each sampled one."""

    subscriptions: ScoredSubscriptions
    messages: Messages
    scale: float

    @property
    def sample(self) -> TopkSample:
        """The sample of planners; messages have the words that a sampled subscription has, by which they are sent."""
        sent, is_word = self.messages, np.isin(self.messages.terms, self.subscriptions.terms)
        offsets = np.append(0, np.cumsum(is_word))[sent.offsets]
        routed = sent._replace(offsets=offsets, terms=sent.terms[is_word], weights=sent.weights[is_word])
        return as_sample(self.subscriptions, routed, self.scale)


def draw_topk_sample(home: Home, settings: Settings, progress: Progress) -> DrawnTopk:
    """Return a sample of the `topk` subscriptions and the objects of a home, which is locked.

    Raises UsageError if no such subscription has an answer yet.
    """
    last = Ledger(home).last_batch
    if last is None or not has_standing_queries(home, last["requests_to"]):
        raise UsageError(*NO_ANSWER)
    context = context_after(home, settings, last)
    drawn: list[tuple[ScoredSubscriptions, float]] = get_engine(settings).run_tasks(
        [settings.sample_subscriptions], partial(_draw, context)
    )
    subscriptions, scale = drawn[0]
    if not len(subscriptions.key):
        raise UsageError(*NO_ANSWER)
    rows, _, _ = draw_objects(home, settings, (None, None), -1, progress)
    keys, lon, lat = (one_array(rows.column(name)).to_numpy() for name in ("object_key", "lon", "lat"))
    offsets, terms = csr(one_array(rows.column("terms")))
    messages = Messages(keys, keys, lon, lat, offsets, terms, context.segments.weights.of_terms(terms))
    progress(f"sample: {counted(len(subscriptions.key), 'subscription')}, {counted(len(keys), 'object')}")
    return DrawnTopk(subscriptions, messages, scale)


def _draw(context: AnswerContext, most: int) -> tuple[ScoredSubscriptions, float]:
    """Choose at most about `most` live subscriptions by a hash of their keys; return also the live ones for each."""
    queries, last = context.queries(), context.previous
    keys, thresholds = read_thresholds(Home(context.home), context.last_snapshot, last.batch_id, snapshot=True)
    is_live = queries.are_scored(keys) & ~is_among(keys, ended_since(context, 0))
    keys, thresholds = keys[is_live], thresholds[is_live]
    is_chosen = hash_to_unit(keys, SEED) < most / max(len(keys), 1)
    _, chosen = queries.select(keys[is_chosen])
    some = as_subscriptions(chosen, thresholds[is_chosen], context.segments.weights)
    return some, len(keys) / max(len(some.key), 1)
