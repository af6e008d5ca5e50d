"""Build the HTML page and the HTTP status for each request of the Airflow plugin, without a JVM."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError

from pststream.base.errors import PstError, UsageError
from pststream.base.texts import mask_urls, moment
from pststream.queries.kinds.contract import QueryKind, StoredObject, StoredSubscription
from pststream.queries.kinds.registry import stored_kind
from pststream.queries.shapes.contract import RegionLimits
from pststream.queries.shapes.registry import read_region
from pststream.reports.commands.explain import Facts, answer_facts
from pststream.reports.commands.lookups import (
    MAX_OBJECTS,
    MAX_SUBSCRIPTIONS_SHOWN,
    ObjectLookup,
    SubscriptionLookup,
    look_up_object,
    look_up_subscription,
)
from pststream.reports.commands.metrics import CONTENT_TYPE, render_metrics
from pststream.reports.pages.answer_section import cut
from pststream.reports.pages.overview_page import NoHome, open_home, read_overview, render_overview
from pststream.reports.pages.plan_sections import CITIES
from pststream.reports.pages.question_page import LONGEST_VALUE, QUESTION_FIELDS, render_question
from pststream.reports.pages.render_page import render_page
from pststream.reports.pages.standing_section import StandingSection, prepare_standing
from pststream.reports.plots.plan_map import draw_region
from pststream.reports.reading.answer_view import asked_answer, read_answer_views
from pststream.reports.reading.plan_view import PlanView, read_plan
from pststream.reports.reading.samples import sample_points

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


@dataclass(frozen=True)
class Page:
    """A page, its HTTP status and its type: 200; 404 for an unknown home or id; 503 if tables cannot be read."""

    status: int
    text: str
    type: str = "text/html; charset=utf-8"


NOT_FOUND, UNAVAILABLE = 404, 503
Asked = ParamSpec("Asked")
_MAX_ERROR_TEXT = 300
_MAX_QUESTION_BYTES = 100_000
"""A process is started with the question, and Linux passes 128 KiB in one argument at most."""


def _served(make: Callable[Concatenate[str, Asked], Page]) -> Callable[Concatenate[str, Asked], Page]:
    """Return a function that makes a page of a home, or the page that says why it cannot be made."""

    @wraps(make)
    def serve(home: str, *asked: Asked.args, **fields: Asked.kwargs) -> Page:
        try:
            return make(home, *asked, **fields)
        except NoHome as error:
            message, _, advice = str(error).partition("\n")
            return Page(NOT_FOUND, render_message("No home", message, advice.strip()))
        except UsageError as error:
            message, _, advice = str(error).partition("\n")
            return Page(NOT_FOUND, render_message("Not found", message, advice.strip()))
        except (DeltaError, OSError, pa.ArrowException, PstError) as error:
            cause = (mask_urls(str(error)).splitlines() or [type(error).__name__])[0][:_MAX_ERROR_TEXT]
            message = f"The tables of {home} cannot be read at the moment: {cause}"
            advice = f"Load the page again in a moment. If the error stays, run: pststream status --home {home}"
            return Page(UNAVAILABLE, render_message("Cannot be read", message, advice))

    return serve


@_served
def overview_page(home: str) -> Page:
    """Return the overview page of a home."""
    return Page(200, render_overview(read_overview(home)))


@_served
def subscription_page(home: str, subscription_id: str, owner: str | None = None) -> Page:
    """Return the page of one subscription; owner None: the only one who has the id."""
    tables = open_home(home)
    lookup = look_up_subscription(tables.strict, subscription_id, owner)
    if lookup.insertions:
        latest = lookup.insertions[0]
        standing = None
        if latest.kind.answers is not None and latest.query.is_readable():
            (answer,) = read_answer_views(tables.strict, [asked_answer(latest, lookup.requests_applied)])
            standing = prepare_standing(latest, answer)
        return Page(200, render_subscription(subscription_id, lookup, read_plan(tables), standing))
    message = f"No subscription “{subscription_id}” was accepted."
    advice = "Ids are compared exactly, including upper and lower case. Rejected rows are listed under Rejected rows."
    return Page(NOT_FOUND, render_message("No such subscription", message, advice, lookup.rejects))


@_served
def object_page(home: str, object_id: str, subscription_id: str = "", owner: str | None = None) -> Page:
    """Return the page of one object; with a subscription id, also why the object matched it or not."""
    tables = open_home(home)
    lookup = look_up_object(tables.strict, object_id)
    if not lookup.objects:
        message = f"No object “{object_id}” was accepted."
        advice = "Ids are compared exactly. pststream rejects lists the rows that were rejected."
        return Page(NOT_FOUND, render_message("No such object", message, advice, lookup.rejects))
    explained = None
    if subscription_id:
        from pststream.reports.commands.explain import explain  # here, since it loads Numba

        explained = explain(tables.home, object_id, subscription_id, MAX_OBJECTS, MAX_INSERTIONS, owner=owner)
    known = explained is None or bool(explained["pairs"])
    page = render_object(object_id, lookup, read_plan(tables), explained, subscription_id)
    return Page(200 if known else NOT_FOUND, page)


@_served
def metrics_page(home: str) -> Page:
    """Return the metrics of a home as text for Prometheus; a page in HTML if there is no home, or tables are broken."""
    return Page(200, render_metrics(open_home(home).home), CONTENT_TYPE)


def question_fields(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a question among the parameters of a request, by name, without empty ones.

    Raises ValueError for a field that is too long, and if all fields together are.
    """
    given = {name: parameters.get(name, "").strip() for name in QUESTION_FIELDS}
    for name, value in given.items():
        if len(value) > LONGEST_VALUE:
            raise ValueError(f"{name} has more than {LONGEST_VALUE:,} characters")
    if len(json.dumps(given)) > _MAX_QUESTION_BYTES:
        raise ValueError(f"the question has more than {_MAX_QUESTION_BYTES:,} bytes as JSON")
    return {name: value for name, value in given.items() if value}


@_served
def question_form_page(
    home: str, fields: Mapping[str, str] = MappingProxyType({}), problem: str = "", status: int = 200
) -> Page:
    """Return the form of a question with these values; `problem` says why the question has no answer."""
    return Page(status, render_question(home, fields, sample_points(open_home(home)), problem))


def busy_page() -> Page:
    """Return the page for a request that is refused because too many pages are being made."""
    message, advice = "Too many pages are being made at the moment.", "Load the page again in a few seconds."
    return Page(UNAVAILABLE, render_message("Busy", message, advice))
