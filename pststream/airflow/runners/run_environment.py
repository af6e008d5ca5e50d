"""Set os.environ for the jobs of a run, in a `with` block: AWS keys of its home; no sink secrets of another home."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from pststream.airflow.runners.allowed_places import HOMES, RunPlace, belongs_to
from pststream.airflow.runners.job_outcome import JobRefused
from pststream.base import names

EXTRAS = {
    "aws_session_token": "AWS_SESSION_TOKEN",
    "region_name": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "profile_name": "AWS_PROFILE",
}
"""By key of the connection's extra: the variable of AWS's standard chain."""

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
"""Variables of keys: those of a connection do not go with a token of the environment."""


def aws_variables(conn_id: str | None, place: RunPlace) -> dict[str, str]:
    """Return the variables of a connection; the values of keys are masked in logs.

    Empty without a connection, and for one that belongs to another home.

    Raises JobRefused if there is no such connection, or if its extra asks for more than static keys or a profile.
    """
    if conn_id is None:
        return {}
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise JobRefused(f"no connection {conn_id!r}: add it in Airflow (Admin, Connections; type aws)") from None
    extra = connection.extra_dejson
    if unknown := sorted(extra.keys() - {*EXTRAS, HOMES}):
        known = ", ".join([*EXTRAS, HOMES])
        raise JobRefused(f"connection {conn_id}: jobs use {known} of its extra, not {', '.join(unknown)}")
    if not belongs_to(conn_id, extra.pop(HOMES, None), place):
        return {}
    keys = {"AWS_ACCESS_KEY_ID": connection.login, "AWS_SECRET_ACCESS_KEY": connection.password}
    static_keys = {name: value for name, value in keys.items() if value}
    variables = static_keys | {EXTRAS[name]: str(value) for name, value in extra.items() if value}
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        mask_secret(variables.get(name))
    return variables


@contextmanager
def aws_environment(conn_id: str | None, place: RunPlace) -> Iterator[None]:
    """Add the variables of a connection to the environment of this process, from which jobs inherit them.

    A connection with keys or a profile replaces all keys of the environment.
    """
    own = aws_variables(conn_id, place)
    others = dict.fromkeys(KEYS) if own.keys() & {*KEYS, "AWS_PROFILE"} else {}
    with with_variables(others | own):
        yield


@contextmanager
def with_variables(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set these variables in the `with` block, remove those that are None; afterwards they are as before."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def run_environment(place: RunPlace, aws_conn_id: str | None) -> Iterator[None]:
    """Set the environment that the jobs of a run inherit, in the `with` block.

    The keys of the connection are in it if it belongs to the home. The variables of sinks belong to the home of the
    DAG: for another home that the form names they are removed.
    """
    others = [] if place.is_own else [name for name in os.environ if name.startswith(names.SINK_VARIABLES)]
    with with_variables(dict.fromkeys(others)), aws_environment(aws_conn_id, place):
        yield
