"""Serves the pages on adjustments, to those who are logged in to Airflow. Copy it into your plugins folder.

The pages lie in `PSTSTREAM_PAGES`, by default `pages` in `PSTSTREAM_HOME`. They load nothing and run one script, which
their own policy names.
"""

import os
from pathlib import Path

from airflow.api_fastapi.core_api.security import get_user
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse

HOME = os.environ.get("PSTSTREAM_HOME", "./pststream-home")
FOLDER = Path(os.environ.get("PSTSTREAM_PAGES") or f"{HOME}/pages").absolute()

app = FastAPI(dependencies=[Depends(get_user)], openapi_url=None)


@app.get("/{name}")
def page(name: str) -> FileResponse:
    """One page."""
    file = FOLDER / name
    if file.parent != FOLDER or file.suffix != ".html" or not file.is_file():
        raise HTTPException(404, "no such page")
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "frame-ancestors 'self'"}
    return FileResponse(file, media_type="text/html", headers=headers)


class PststreamPages(AirflowPlugin):
    """The pages, under /pststream/pages."""

    name = "pststream_pages"
    fastapi_apps = [{"app": app, "url_prefix": "/pststream/pages", "name": "PSTStream pages"}]
