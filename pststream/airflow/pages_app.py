"""Serve the PSTStream pages in Airflow's API server, for users who are logged in.

The overview of the home `PSTSTREAM_HOME`, and the pages of one subscription and of one object, are rendered from the
tables at each request. The pages of adjustments are files in `PSTSTREAM_PAGES`, by default `pages` in the home. No page
changes anything, loads anything from elsewhere, or runs a script other than the one that its policy names.
"""

import os
from pathlib import Path
from typing import Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.responses import FileResponse, HTMLResponse

from pststream import names
from pststream.airflow.dag_options import DagOptions
from pststream.reports.pages import airflow_views

LONGEST_NAME = 255
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'self'",
    "Cache-Control": "no-store",
}

app = FastAPI(dependencies=[Depends(get_user)], openapi_url=None)


@app.get("/")
def overview() -> HTMLResponse:
    """The state of the home."""
    return _html(airflow_views.overview_page(_home()))


@app.get("/subscription")
def subscription(id: str = Query(min_length=1, max_length=1_000)) -> HTMLResponse:
    """One subscription."""
    return _html(airflow_views.subscription_page(_home(), id))


@app.get("/object")
def one_object(
    id: str = Query(min_length=1, max_length=1_000), subscription: str = Query(default="", max_length=1_000)
) -> HTMLResponse:
    """One object, and why it matched a subscription or not."""
    return _html(airflow_views.object_page(_home(), id, subscription))


@app.get("/pages/{name}")
def adjustment(name: str) -> FileResponse:
    """The page of an adjustment."""
    folder = DagOptions().pages
    file = folder / name
    if len(name) > LONGEST_NAME or file.parent != folder or file.suffix != ".html" or not file.is_file():
        raise HTTPException(404, "no such page")
    return FileResponse(file, media_type="text/html", headers=HEADERS)


def _home() -> str:
    home = os.environ.get("PSTSTREAM_HOME", "./pststream-home")
    return home if names.storage_prefix(home) else str(Path(home).absolute())


def _html(page: Any) -> HTMLResponse:
    return HTMLResponse(page.text, page.status, HEADERS)
