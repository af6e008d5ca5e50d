"""Add variables to the environment of this process for a while, for the processes that it starts meanwhile."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def with_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these variables in the `with` block; afterwards they are as before."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
