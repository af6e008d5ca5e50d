"""PSTStream in Airflow's menu, for those who are logged in. Copy this file into your plugins folder.

The page on the home `PSTSTREAM_HOME`, with a page for one subscription and one for one object, is made anew each time
by reading the tables. The pages on adjustments are files in `PSTSTREAM_PAGES`, by default `pages` in the home. None of
them changes anything, loads anything from elsewhere, or runs another script than the one that its own policy names.
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
    """How the home stands."""
    from pststream.reports.pages import (
        airflow_site,  # here, since all of Airflow loads plugins, and the API server alone makes pages
    )

    return _html(airflow_site.overview(_home()))


@app.get("/subscription")
def subscription(id: str = Query(min_length=1, max_length=1_000)) -> HTMLResponse:
    """One subscription."""
    from pststream.reports.pages import airflow_site

    return _html(airflow_site.subscription(_home(), id))


@app.get("/object")
def one_object(
    id: str = Query(min_length=1, max_length=1_000), subscription: str = Query(default="", max_length=1_000)
) -> HTMLResponse:
    """One object, and why it matched a subscription, or not."""
    from pststream.reports.pages import airflow_site

    return _html(airflow_site.thing(_home(), id, subscription))


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
