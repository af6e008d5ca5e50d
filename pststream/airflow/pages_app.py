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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow.api_fastapi.core_api.security import get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import Response

from pststream.airflow.runners.job_outcome import REFUSED
from pststream.airflow.runners.job_process import JobProcess, environment
from pststream.base.texts import mask_urls
from pststream.input.data_docs import POLICY, read_page
from pststream.reports.pages import airflow_views
from pststream.reports.pages.airflow_views import Page
from pststream.storage.registry import files_at, normalize

KEPT_SECONDS = 5.0
"""How long a page is returned again, rather than made again."""

MAX_PAGES = 64
MAX_MADE = 2
"""Pages of a home that are made at the same time."""

MAX_WAITING = 6
"""Requests that wait for one of these; further ones are refused at once."""

MAX_OF_ALL = 12
"""Requests at the same time for pages of one sort of all homes; further ones are refused at once."""


class PageCache:
    """The latest pages of one home. Safe for use by several threads.

    It bounds how many pages are made at the same time, as the API server has 40 threads for all of Airflow.

    busy: makes the page for a request that is refused
    of_all: bounds the requests for pages of this sort of all homes
    """

    def __init__(
        self, busy: Callable[[], Page], of_all: threading.BoundedSemaphore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._busy, self._of_all = busy, of_all
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[tuple[str | None, ...], tuple[float, Page]] = {}
        self._made = threading.BoundedSemaphore(MAX_MADE)
        self._asked = threading.BoundedSemaphore(MAX_MADE + MAX_WAITING)

    def get(self, key: tuple[str | None, ...], make: Callable[[], Page]) -> Page:
        """Return the page of a key, made at most KEPT_SECONDS ago; that of `busy` if too many are being made."""
        page = self._find(key)
        if page is not None:
            return page
        with _admitted(self._asked) as of_home, _admitted(self._of_all) as of_all:
            if not (of_home and of_all):
                return self._busy()
            with self._made:
                page = self._find(key)  # another request may have made it meanwhile
                return page if page is not None else self._keep(key, make())

    def _find(self, key: tuple[str | None, ...]) -> Page | None:
        with self._lock:
            until, page = self._pages.get(key, (0.0, None))
            return page if self._clock() < until else None

    def _keep(self, key: tuple[str | None, ...], page: Page) -> Page:
        with self._lock:
            self._pages.pop(key, None)
            if len(self._pages) >= MAX_PAGES:
                del self._pages[next(iter(self._pages))]
            self._pages[key] = (self._clock() + KEPT_SECONDS, page)
        return page


@contextmanager
def _admitted(bound: threading.BoundedSemaphore) -> Iterator[bool]:
    """Yield whether the block is within a bound; it never waits."""
    admitted = bound.acquire(blocking=False)
    try:
        yield admitted
    finally:
        if admitted:
            bound.release()


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
