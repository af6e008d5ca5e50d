"""Add the PSTStream pages to Airflow's menu: a plugin that Airflow loads by the entry point of the package."""

from typing import Any
from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin
from airflow.providers.common.compat.sdk import conf

PREFIX = "/pststream"


class PSTStreamPages(AirflowPlugin):
    """The pages, under /pststream, and their entry in the menu."""

    name = "pststream_pages"
    external_views = [
        {
            "name": "PSTStream",
            "href": urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX + "/",
            "url_route": "pststream",
            "destination": "nav",
        }
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The pages. Every component of Airflow loads plugins, and only the API server asks for this property."""
        from pststream.airflow.pages_app import app

        return [{"app": app, "url_prefix": PREFIX, "name": "PSTStream pages"}]
