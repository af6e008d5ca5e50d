"""Serve the PSTStream pages of a home in Airflow's API server, for users who are logged in.

The overview of the home, the pages of one subscription and of one object, and the metrics for Prometheus are rendered
from the tables, and kept for some seconds. A question is answered by a process of its own. The pages of adjustments and
the Data Docs are files. No page changes anything, loads anything from elsewhere, or runs a script other than the one
that its policy names.
"""

import json
import re
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from airflow.api_fastapi.core_api.security import get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import Response

from pststream.airflow.page_cache import MAX_OF_ALL, PageCache
from pststream.airflow.runners.job_outcome import REFUSED
from pststream.airflow.runners.job_process import JobProcess, environment
from pststream.base.texts import mask_urls
from pststream.input.data_docs import POLICY, read_page
from pststream.reports.pages import airflow_views
from pststream.reports.pages.airflow_views import Page
from pststream.storage.registry import files_at, normalize

SECONDS = 30.0
"""How long a question may take; then its process is killed."""


def ask_in_process(home: str, fields: Mapping[str, str]) -> Page:
    """Return the page with the answer of a question of these texts by field, or the form with the reason for none."""
    with tempfile.TemporaryDirectory(prefix="pststream-") as folder:
        page = Path(folder) / "answer.html"
        arguments = [f"--home={home}", f"--question={json.dumps(dict(fields))}", f"--page={page}", "--form"]
        outcome, _ = JobProcess("ask", environment(), SECONDS).run(arguments, Path(folder) / "result.json")
        if outcome is not None and outcome["error"] is None:
            return Page(200, page.read_text("utf-8"))
    status = airflow_views.UNAVAILABLE
    if outcome is None:
        problem = (
            f"The question took longer than {SECONDS:g} s, or its process was killed. Ask about a smaller region or"
            " window, or use the command pststream ask. The first question after large files were ingested also"
            " builds their segments: ask again."
        )
    elif outcome["exit_code"] == REFUSED:  # the question is not valid
        problem, status = outcome["error"].splitlines()[0], 400
    else:
        problem = mask_urls(outcome["error"].splitlines()[-1])
    return airflow_views.question_form_page(home, fields, problem, status)


LONGEST_NAME = 255
PAGE_NAME = re.compile(r"[A-Za-z0-9_.-]+\.html")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'self'",
    "Cache-Control": "no-store",
}

_PAGES, _ANSWERS = threading.BoundedSemaphore(MAX_OF_ALL), threading.BoundedSemaphore(MAX_OF_ALL)
"""Bounds of the requests of all homes: for pages that are rendered from tables, and for answers, which take longer."""

router = APIRouter(dependencies=[Depends(get_user)])


def make_app(home: str, folders: Sequence[str]) -> FastAPI:
    """Return the pages of a home; the pages of adjustments are those in these folders, paths or addresses."""
    app = FastAPI(openapi_url=None)
    app.include_router(router)
    app.state.home, app.state.folders = home, folders
    app.state.cache = PageCache(airflow_views.busy_page, _PAGES)
    app.state.answers = PageCache(airflow_views.busy_page, _ANSWERS)
    return app


@router.get("/")
def overview(request: Request) -> Response:
    """The state of the home."""
    return _answer(request, airflow_views.overview_page)


@router.get("/subscription")
def subscription(
    request: Request,
    id: str = Query(min_length=1, max_length=1_000),
    owner: str | None = Query(default=None, max_length=1_000),
) -> Response:
    """One subscription."""
    return _answer(request, airflow_views.subscription_page, id, owner)


@router.get("/object")
def one_object(
    request: Request,
    id: str = Query(min_length=1, max_length=1_000),
    subscription: str = Query(default="", max_length=1_000),
    owner: str | None = Query(default=None, max_length=1_000),
) -> Response:
    """One object, and why it matched a subscription or not."""
    return _answer(request, airflow_views.object_page, id, subscription, owner)


@router.get("/questions")
def questions(request: Request) -> Response:
    """The form of a question; if its kind is given, also the answer."""
    try:
        fields = airflow_views.question_fields(request.query_params)
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
    if "kind" not in fields:
        return _answer(request, airflow_views.question_form_page)
    key = tuple(f"{name}={value}" for name, value in fields.items())
    return _response(request.app.state.answers.get(key, lambda: ask_in_process(request.app.state.home, fields)))


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """The metrics of the home, for Prometheus."""
    return _answer(request, airflow_views.metrics_page)


@router.get("/pages/{name}")
def adjustment(request: Request, name: str) -> Response:
    """The page of an adjustment."""
    if len(name) <= LONGEST_NAME and PAGE_NAME.fullmatch(name):
        for folder in map(files_at, request.app.state.folders):
            if folder.exists(name):
                return Response(folder.read(name), 200, HEADERS, media_type="text/html")
    raise HTTPException(404, "no such page")


@router.get("/data_docs/{run}/{page:path}")
def data_docs(request: Request, run: str, page: str) -> Response:
    """A page of the Data Docs that a run has written into the home."""
    text = read_page(files_at(normalize(request.app.state.home)), run, page)
    if text is None:
        raise HTTPException(404, "no such page")
    policy = f"{HEADERS['Content-Security-Policy']}; {POLICY}"
    return Response(text, 200, {**HEADERS, "Content-Security-Policy": policy}, media_type="text/html")


def _answer(request: Request, make: Callable[..., Page], *ids: str | None) -> Response:
    state = request.app.state
    return _response(state.cache.get((make.__name__, *ids), lambda: make(state.home, *ids)))


def _response(page: Page) -> Response:
    return Response(page.text, page.status, HEADERS, media_type=page.type)
