"""Add the pages of the homes in PSTSTREAM_HOMES and PSTSTREAM_HOME to Airflow's menu, as a plugin of Airflow."""

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin
from airflow.providers.common.compat.sdk import conf

from pststream.airflow.dag_options import DagOptions
from pststream.base import names

PREFIX = "/pststream"
ROUTES = ("pages", "object", "subscription", "questions", "metrics", "data_docs")


def homes_by_name() -> dict[str, str]:
    """Return the homes that have pages, by name: those of `PSTSTREAM_HOMES`, and `PSTSTREAM_HOME` without a name.

    Raises ValueError if `PSTSTREAM_HOMES` is not {"name": "address"} in JSON, or for a name that cannot be in a URL.
    """
    homes: dict[str, str] = json.loads(os.environ.get("PSTSTREAM_HOMES") or "{}")
    for name in homes:
        if not re.fullmatch(r"[a-z0-9_-]+", name) or name in ROUTES:
            raise ValueError(f"PSTSTREAM_HOMES: {name!r} is not a name of lower-case letters, digits, - and _")
    if "PSTSTREAM_HOME" in os.environ or not homes:
        homes[""] = os.environ.get("PSTSTREAM_HOME", "./pststream-home")
    return homes


def _view(name: str) -> dict[str, str]:
    """Return the entry of a home in the menu."""
    base = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return {
        "name": f"PSTStream {name}".rstrip(),
        "href": f"{base}{PREFIX}/{name}/".replace("//", "/"),
        "url_route": f"pststream-{name}".rstrip("-"),
        "destination": "nav",
    }


class PSTStreamPages(AirflowPlugin):
    """The pages of each home, and their entries in the menu."""

    name = "pststream_pages"
    external_views = [_view(name) for name in homes_by_name()]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The pages. Every component of Airflow loads plugins, and only the API server asks for this property."""
        from pststream.airflow.pages_app import make_app

        homes = homes_by_name()
        folders = sorted({DagOptions(home=home).pages for home in homes.values()})
        named = {f"{PREFIX}/{name}": home for name, home in homes.items() if name}
        # The app at PREFIX comes last, since the prefixes of the others begin with it; it also has the pages of
        # adjustments of all homes.
        apps = named | {PREFIX: homes.get("", next(iter(homes.values())))}
        return [
            {"app": make_app(address, folders), "url_prefix": prefix, "name": f"PSTStream pages {prefix}"}
            for prefix, home in apps.items()
            for address in [home if names.storage_prefix(home) else str(Path(home).absolute())]
        ]
