"""Add the PSTStream pages to Airflow's menu, for users who are logged in. Copy this file into the plugins folder.

The overview of the home `PSTSTREAM_HOME`, and the pages of one subscription and of one object, are rendered from the
tables at each request. The pages of adjustments are files in `PSTSTREAM_PAGES`, by default `pages` in the home. No page
changes anything, loads anything from elsewhere, or runs a script other than the one that its policy names.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

from airflow.api_fastapi.core_api.security import get_user
from airflow.plugins_manager import AirflowPlugin
from airflow.providers.common.compat.sdk import conf
from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.responses import FileResponse, HTMLResponse

HOME = os.environ.get("PSTSTREAM_HOME", "./pststream-home")
IN_BUCKET = HOME.startswith(("s3://", "s3a://"))
FOLDER = Path(os.environ.get("PSTSTREAM_PAGES") or ("./pststream-pages" if IN_BUCKET else f"{HOME}/pages")).absolute()
PREFIX = "/pststream"
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
    # Imported here since every component of Airflow loads plugins, and only the API server renders pages.
    from pststream.reports.pages import airflow_views

    return _html(airflow_views.overview_page(_home()))


@app.get("/subscription")
def subscription(id: str = Query(min_length=1, max_length=1_000)) -> HTMLResponse:
    """One subscription."""
    from pststream.reports.pages import airflow_views

    return _html(airflow_views.subscription_page(_home(), id))


@app.get("/object")
def one_object(
    id: str = Query(min_length=1, max_length=1_000), subscription: str = Query(default="", max_length=1_000)
) -> HTMLResponse:
    """One object, and why it matched a subscription or not."""
    from pststream.reports.pages import airflow_views

    return _html(airflow_views.object_page(_home(), id, subscription))


@app.get("/pages/{name}")
def adjustment(name: str) -> FileResponse:
    """The page of an adjustment."""
    file = FOLDER / name
    if len(name) > LONGEST_NAME or file.parent != FOLDER or file.suffix != ".html" or not file.is_file():
        raise HTTPException(404, "no such page")
    return FileResponse(file, media_type="text/html", headers=HEADERS)


def _home() -> str:
    return HOME if IN_BUCKET else str(Path(HOME).absolute())


def _html(page) -> HTMLResponse:
    return HTMLResponse(page.text, page.status, HEADERS)


class PststreamPages(AirflowPlugin):
    """The pages, under /pststream, and their entry in the menu."""

    name = "pststream_pages"
    fastapi_apps = [{"app": app, "url_prefix": PREFIX, "name": "PSTStream pages"}]
    external_views = [
        {
            "name": "PSTStream",
            "href": urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX + "/",
            "url_route": "pststream",
            "destination": "nav",
        }
    ]
