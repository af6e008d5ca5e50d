"""Set os.environ for the jobs of a run, in a `with` block: AWS keys of its home; no sink secrets of another home."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pststream.airflow.runners.allowed_places import RunPlace
from pststream.airflow.runners.aws_connection import aws_environment
from pststream.airflow.runners.environment_variables import with_variables
from pststream.base import names


@contextmanager
def run_environment(place: RunPlace, aws_conn_id: str | None) -> Iterator[None]:
    """Set the environment that the jobs of a run inherit, in the `with` block.

    The keys of the connection are in it if it belongs to the home. The variables of sinks belong to the home of the
    DAG: for another home that the form names they are removed.
    """
    others = [] if place.is_own else [name for name in os.environ if name.startswith(names.SINK_VARIABLES)]
    with with_variables(dict.fromkeys(others)), aws_environment(aws_conn_id, place):
        yield
