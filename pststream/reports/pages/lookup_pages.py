"""Render Airflow's pages of one subscription, of one object (explaining a pair), and of an error, from look-ups."""

import sys
from typing import Any

import numpy as np

from pststream.base.texts import moment
from pststream.queries.kinds.contract import QueryKind, StoredObject, StoredSubscription
from pststream.queries.kinds.registry import stored_kind
from pststream.queries.shapes.contract import RegionLimits
from pststream.queries.shapes.registry import read_region
from pststream.reports.commands.explain import Facts, answer_facts
from pststream.reports.commands.lookups import MAX_SUBSCRIPTIONS_SHOWN, ObjectLookup, SubscriptionLookup
from pststream.reports.pages.answer_section import cut
from pststream.reports.pages.plan_sections import CITIES
from pststream.reports.pages.render_page import render_page
from pststream.reports.pages.standing_section import StandingSection
from pststream.reports.plots.plan_map import draw_region
from pststream.reports.reading.plan_view import PlanView

_MAX_TEXT = 2_000
MAX_INSERTIONS = 20
"""The latest insertions of a subscription that a page shows or explains."""


def render_message(title: str, message: str, advice: str, rejects: list[dict[str, Any]] | None = None) -> str:
    """Render a page that says what is wrong and what to do."""
    return render_page("message.html", forms=True, title=title, message=message, advice=advice, rejects=rejects or [])


def render_subscription(
    subscription_id: str, lookup: SubscriptionLookup, view: PlanView | None, standing: StandingSection | None = None
) -> str:
    """Render the page of a subscription that was accepted; standing: the answer of its latest insertion."""
    insertions = lookup.insertions[:MAX_INSERTIONS]
    region = insertions[0].query.region
    circle = "; dashed: a nearer object enters the answer" if standing and standing.answer.question.region else ""
    return render_page(
        "subscription.html",
        forms=True,
        subscription_id=subscription_id,
        lookup=lookup,
        insertions=[
            (_describe_query(one.kind, one.query.describe()), _insertion_facts(one, lookup.requests_applied))
            for one in insertions
        ],
        map=draw_region(view, region, np.empty((0, 2))) if region is not None else None,
        standing=standing,
        legend=[("dot asked-dot", "the point"), ("dot match-dot", f"objects of the answer{circle}"), CITIES],
    )


def render_object(
    object_id: str, lookup: ObjectLookup, view: PlanView | None, explained: dict[str, Any] | None, subscription_id: str
) -> str:
    """Render the page of an accepted object; `explained`: the explanation of a pair, if a subscription is asked for."""
    points = np.array([(stored.lon, stored.lat) for stored in lookup.objects[:1]])
    pair = explained["pairs"][0] if explained and explained["pairs"] else None
    subscription = pair["subscription"] if pair else {}
    region = subscription.get("region")
    return render_page(
        "object.html",
        forms=True,
        object_id=object_id,
        subscription_id=subscription_id,
        lookup=lookup,
        max_matches=MAX_SUBSCRIPTIONS_SHOWN,
        explained=explained,
        query=_describe_query(stored_kind(subscription["kind"]), subscription) if subscription else {},
        facts=_pair_facts(pair) if pair else [],
        objects=[(cut(one.text, _MAX_TEXT), _object_facts(one, lookup.objects_matched)) for one in lookup.objects],
        map=draw_region(view, read_region(region, RegionLimits(sys.maxsize)) if region else None, points),
    )


def _describe_query(kind: QueryKind, description: dict[str, Any]) -> dict[str, str]:
    """Return the parts of a query as its kind describes them, text by name."""
    return {name: text[:_MAX_TEXT] for name, text in kind.facts(description).items()}


def _insertion_facts(subscription: StoredSubscription, applied: int) -> Facts:
    validity = subscription.validity()
    until = f"until {moment(validity.end_at)} UTC ({validity.ended_by})" if validity.end_at else "without end"
    return [
        ("Valid", f"from {moment(subscription.created_at)} UTC {until}"),
        ("State", "waiting for a batch" if subscription.key > applied else "in the index"),
        ("Key", str(subscription.key)),
    ]


def _object_facts(stored: StoredObject, matched_to: int) -> Facts:
    return [
        ("Time", f"{moment(stored.ts)} UTC"),
        ("Place", f"{stored.lon:.9g}, {stored.lat:.9g} (longitude, latitude)"),
        ("State", "waiting for a batch" if stored.key > matched_to else "matched against all subscriptions"),
        ("Key", str(stored.key)),
    ]


def _pair_facts(pair: dict[str, Any]) -> Facts:
    """Return the facts of an explained pair, except its state, its reason and the query."""
    posting, subscription = pair["posting"], pair["subscription"]
    until = f"until {subscription['end_at']}" if subscription["end_at"] else "without end"
    facts = [("Valid", f"from {subscription['created_at']} {until}")]
    if posting:
        facts += [
            ("Posting", f"word {posting['word']} of the clause {' OR '.join(posting['clause'])}"),
            ("Index cell", f"level {posting['level']}, column {posting['column']}, row {posting['row']}"),
            ("Served by", f"worker {posting['worker']}, unit {posting['unit']} of plan {posting['plan_version']}"),
        ]
    facts += answer_facts(pair["answer"])
    if written := pair["written_by"]:
        facts.append(("Written by", f"batch {written['batch_id']}, worker {written['worker']}"))
    if pair["taken_back_by"] is not None:
        facts.append(("Retracted by", f"batch {pair['taken_back_by']}"))
    return facts
