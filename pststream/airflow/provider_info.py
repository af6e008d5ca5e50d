"""Describe the package to Airflow as a provider, by its entry point: the connection type `pststream`."""

from typing import Any

CONN_FIELDS = {
    "home": ("Home", "Folder or s3://bucket/prefix of the tables"),
    "landing": ("Landing folder", "Folder or s3://bucket/prefix of new files; empty: landing in the home"),
}
"""Fields of the connection: label, description."""


def provider_info() -> dict[str, Any]:
    """Return the document that Airflow reads."""
    fields = {
        name: {"label": label, "description": text, "schema": {"type": ["string", "null"]}}
        for name, (label, text) in CONN_FIELDS.items()
    }
    connection = {
        "connection-type": "pststream",
        "hook-class-name": "pststream.airflow.hook.PSTStreamHook",
        "hook-name": "PSTStream",
        "ui-field-behaviour": {"hidden-fields": ["host", "port", "schema", "login", "password"], "relabeling": {}},
        "conn-fields": fields,
    }
    return {
        "package-name": "pststream",
        "name": "PSTStream",
        "description": "Standing spatio-textual queries over a stream",
        "connection-types": [connection],
    }
