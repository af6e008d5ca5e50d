"""Build the HTML page and the HTTP status for each request of the Airflow plugin, without a JVM."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Concatenate, ParamSpec

import pyarrow as pa
from deltalake.exceptions import DeltaError

from pststream.base.errors import PstError, UsageError
from pststream.base.texts import mask_urls
from pststream.reports.commands.lookups import MAX_OBJECTS, look_up_object, look_up_subscription
from pststream.reports.commands.metrics import CONTENT_TYPE, render_metrics
from pststream.reports.pages.lookup_pages import MAX_INSERTIONS, render_message, render_object, render_subscription
from pststream.reports.pages.overview_page import NoHome, open_home, read_overview, render_overview
from pststream.reports.pages.question_page import LONGEST_VALUE, QUESTION_FIELDS, render_question
from pststream.reports.pages.standing_section import prepare_standing
from pststream.reports.reading.answer_view import asked_answer, read_answer_views
from pststream.reports.reading.plan_view import read_plan
from pststream.reports.reading.samples import sample_points


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
