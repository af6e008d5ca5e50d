"""Describe the package to Airflow as a provider, by its entry point: its connection types and configuration options."""

from collections.abc import Mapping, Sequence
from typing import Any

HOME_FIELDS = {
    "home": ("Home", "Folder or s3://bucket/prefix of the tables"),
    "landing": ("Landing folder", "Folder or s3://bucket/prefix of new files; empty: landing in the home"),
}
SINK_FIELDS = {
    "secret_target": ("Target", "URL of a webhook with its token, URL of a queue, ARN of a topic"),
    "homes": (
        "Home",
        "The home that secret and target belong to, several as a list in the extra; empty: that of the DAG",
    ),
}
"""Fields of a connection's extra: label, description."""

ALLOWED_OPTIONS = {
    "allowed_homes": ("Homes", '["/data/malmo", "s3://bucket/homes/*"]'),
    "allowed_landings": ("Landing folders", '["/data/landing/*"]'),
}
"""Options of Airflow's configuration: what they list, an example."""


OPERATORS = "pststream.airflow.operators"
"""The module of operators and hooks."""

TRIGGERS = "pststream.airflow.runners.outcome_trigger"

LINKS = [
    "pststream.airflow.dags.questions.AnswerLink",
    "pststream.airflow.tasks.data_docs.DataDocsLink",
    "pststream.airflow.tasks.plan_change.PageLink",
    "pststream.airflow.tasks.plan_change.ReplayLink",
]
"""The buttons of tasks."""


def provider_info() -> dict[str, Any]:
    """Return the document that Airflow reads."""
    address = ["host", "port", "schema", "login"]
    sink = connection_type("pststream_sink", "PSTStreamSinkHook", "PSTStream sink", SINK_FIELDS, address)
    sink["ui-field-behaviour"]["relabeling"] = {"password": "Secret"}
    listed = "that a form may name besides that of the DAG: a list in JSON. /* at the end: each folder in it."
    option = {"type": "string", "version_added": "0.1.0", "default": "[]"}
    options = {
        name: option | {"description": f"{what} {listed}", "example": example}
        for name, (what, example) in ALLOWED_OPTIONS.items()
    }
    return {
        "package-name": "pststream",
        "name": "PSTStream",
        "description": "Standing spatio-textual queries over a stream",
        "integrations": [{"integration-name": "PSTStream", "tags": ["service"]}],
        "operators": [{"integration-name": "PSTStream", "python-modules": [OPERATORS]}],
        "hooks": [{"integration-name": "PSTStream", "python-modules": [OPERATORS]}],
        "triggers": [{"integration-name": "PSTStream", "python-modules": [TRIGGERS]}],
        "extra-links": LINKS,
        "connection-types": [
            connection_type("pststream", "PSTStreamHook", "PSTStream", HOME_FIELDS, [*address, "password"]),
            sink,
        ],
        "config": {"pststream": {"description": "What the trigger forms of PSTStream may name.", "options": options}},
    }


def connection_type(
    name: str, hook: str, title: str, fields: Mapping[str, tuple[str, str]], hidden: Sequence[str]
) -> dict[str, Any]:
    """Describe a connection type: its hook, the fields of its extra, the fields of Airflow's form that are hidden."""
    return {
        "connection-type": name,
        "hook-class-name": f"{OPERATORS}.{hook}",
        "hook-name": title,
        "ui-field-behaviour": {"hidden-fields": list(hidden), "relabeling": {}},
        "conn-fields": {field: conn_field(field, *texts) for field, texts in fields.items()},
    }


def conn_field(name: str, label: str, description: str) -> dict[str, Any]:
    """Describe a field of the form; what is called secret is shown as a password."""
    hidden = {"format": "password"} if name.startswith("secret_") else {}
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **hidden}}
