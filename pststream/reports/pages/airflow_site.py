"""What the plugin in Airflow serves: pages with their HTTP status, made from a home by reading alone, without a JVM."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from pststream.errors import PstError
from pststream.reports.commands.lookups import object_file, subscription_file
from pststream.reports.pages.airflow_data import NoHome, read_live, tables_of
from pststream.reports.pages.airflow_page import live_page
from pststream.reports.pages.lookup_pages import message_page, object_page, subscription_page
from pststream.reports.reading.plan_view import read_plan
from pststream.reports.reading.tolerant_reader import Tables

NOT_FOUND, UNAVAILABLE = 404, 503


@dataclass(frozen=True)
class Page:
    """A page and its HTTP status: 200; 404, no such home, subscription or object; 503, tables cannot be read."""

    status: int
    text: str


def overview(home: str) -> Page:
    """How the home stands."""
    return _served(home, lambda: Page(200, live_page(read_live(home))))


def subscription(home: str, subscription_id: str) -> Page:
    """One subscription."""
    return _served(home, lambda: _subscription(home, subscription_id))


def thing(home: str, object_id: str, subscription_id: str = "") -> Page:
    """One object; with a subscription: why the two met, or did not."""
    return _served(home, lambda: _thing(home, object_id, subscription_id))


def _subscription(home: str, subscription_id: str) -> Page:
    tables = tables_of(home)
    found = subscription_file(tables.reader, subscription_id)
    if found.lives:
        return Page(200, subscription_page(subscription_id, found, read_plan(tables)))
    message = f"No subscription “{subscription_id}” was accepted."
    advice = "Ids are compared as they were given, upper and lower case apart; see Rejected rows for what was refused."
    return Page(NOT_FOUND, message_page("No such subscription", message, advice, found.rejects))


def _thing(home: str, object_id: str, subscription_id: str) -> Page:
    tables = tables_of(home)
    found = object_file(tables.reader, object_id)
    if not found.things:
        message = f"No object “{object_id}” was accepted."
        advice = "Ids are compared as they were published; pststream rejects lists the rows that were refused."
        return Page(NOT_FOUND, message_page("No such object", message, advice, found.rejects))
    explained = _explained(tables, object_id, subscription_id) if subscription_id else None
    known = explained is None or bool(explained["pairs"])
    page = object_page(object_id, found, read_plan(tables), explained, subscription_id)
    return Page(200 if known else NOT_FOUND, page)


def _explained(tables: Tables, object_id: str, subscription_id: str) -> dict[str, Any]:
    from pststream.reports.commands.explain import explain  # here, since it loads Numba

    return explain(tables.home, object_id, subscription_id)


def _served(home: str, make: Callable[[], Page]) -> Page:
    try:
        return make()
    except NoHome as error:
        message, _, advice = str(error).partition("\n")
        return Page(NOT_FOUND, message_page("No home", message, advice.strip()))
    except (DeltaError, OSError, pa.ArrowException, PstError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:300]
        message = f"The tables of {home} cannot be read just now: {first}"
        advice = "Load the page again in a moment. If it stays so, run: pststream status"
        return Page(UNAVAILABLE, message_page("Cannot be read", message, advice))
