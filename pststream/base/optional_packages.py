"""Handle optional packages: name the extra that has a missing one, and hide those that a small command does not use.

numba imports scipy's linear algebra and cffi at the first call of a kernel, and pyarrow imports pandas at the first
array. Both do without if they are not installed. Together they take a third of the start of a small command.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from pststream.base.errors import UsageError


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


@contextmanager
def hidden_packages(*names: str) -> Iterator[None]:
    """Let imports of these packages raise ImportError within the block, unless they are imported already."""
    finder = _RefusingFinder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _RefusingFinder(MetaPathFinder):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ImportError for the refused packages; leave all others to the next finder."""
        if fullname in self._names:
            raise ModuleNotFoundError(f"{fullname} is hidden", name=fullname)
        return None
