"""Raise an error that names the extra to install, where an import fails for a package of an extra of pststream."""

from collections.abc import Iterator
from contextlib import contextmanager

from pststream.errors import UsageError


class MissingExtra(UsageError):
    """A package of an extra is not installed; nothing was changed."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Raise MissingExtra if an import within the block does not find its package.

    extra: the extra of pyproject.toml that has the packages which the block imports.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error.name} is not installed", f"run: pip install 'pststream[{extra}]'") from None
