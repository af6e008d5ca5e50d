"""Keep the pages of a home for some seconds, and bound how many are made at the same time. Imports no Airflow."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Made = TypeVar("Made")
"""A page as its callers make it."""

KEPT_SECONDS = 5.0
"""How long a page is returned again, rather than made again."""

MAX_PAGES = 64
MAX_MADE = 2
"""Pages of a home that are made at the same time."""

MAX_WAITING = 6
"""Requests that wait for one of these; further ones are refused at once."""

MAX_OF_ALL = 12
"""Requests at the same time for pages of one sort of all homes; further ones are refused at once."""


class PageCache(Generic[Made]):
    """The latest pages of one home. Safe for use by several threads.

    It bounds how many pages are made at the same time, as the API server has 40 threads for all of Airflow.

    busy: makes the page for a request that is refused
    of_all: bounds the requests for pages of this sort of all homes
    """

    def __init__(
        self,
        busy: Callable[[], Made],
        of_all: threading.BoundedSemaphore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._busy, self._of_all = busy, of_all
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[tuple[str | None, ...], tuple[float, Made]] = {}
        self._made = threading.BoundedSemaphore(MAX_MADE)
        self._asked = threading.BoundedSemaphore(MAX_MADE + MAX_WAITING)

    def get(self, key: tuple[str | None, ...], make: Callable[[], Made]) -> Made:
        """Return the page of a key, made at most KEPT_SECONDS ago; that of `busy` if too many are being made."""
        page = self._find(key)
        if page is not None:
            return page
        with _admitted(self._asked) as of_home, _admitted(self._of_all) as of_all:
            if not (of_home and of_all):
                return self._busy()
            with self._made:
                page = self._find(key)  # another request may have made it meanwhile
                return page if page is not None else self._keep(key, make())

    def _find(self, key: tuple[str | None, ...]) -> Made | None:
        with self._lock:
            until, page = self._pages.get(key, (0.0, None))
            return page if self._clock() < until else None

    def _keep(self, key: tuple[str | None, ...], page: Made) -> Made:
        with self._lock:
            self._pages.pop(key, None)
            if len(self._pages) >= MAX_PAGES:
                del self._pages[next(iter(self._pages))]
            self._pages[key] = (self._clock() + KEPT_SECONDS, page)
        return page


@contextmanager
def _admitted(bound: threading.BoundedSemaphore) -> Iterator[bool]:
    """Yield whether the block is within a bound; it never waits."""
    admitted = bound.acquire(blocking=False)
    try:
        yield admitted
    finally:
        if admitted:
            bound.release()
