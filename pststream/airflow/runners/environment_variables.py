"""Add variables to the environment of this process for a while, for the processes that it starts meanwhile."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


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
