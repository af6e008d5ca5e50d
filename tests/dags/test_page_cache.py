"""Pages are kept for seconds, and few are made at a time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from pststream.airflow.page_cache import KEPT_SECONDS, MAX_MADE, MAX_OF_ALL, MAX_PAGES, MAX_WAITING, PageCache
from pststream.reports.pages.airflow_views import Page, busy_page

pytestmark = pytest.mark.airflow


def bound() -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(MAX_OF_ALL)


def counting(made: list[str], name: str) -> Callable[[], Page]:
    def make() -> Page:
        made.append(name)
        return Page(200, name)

    return make


def test_a_page_is_made_once_in_some_seconds() -> None:
    now, made = [0.0], []
    cache = PageCache(busy_page, bound(), lambda: now[0])
    for _ in range(3):
        assert cache.get(("object", "a"), counting(made, "a")).text == "a"
    assert cache.get(("object", "b"), counting(made, "b")).text == "b"
    now[0] = KEPT_SECONDS
    assert cache.get(("object", "a"), counting(made, "a")).text == "a"
    assert made == ["a", "b", "a"]


def test_memory_is_bounded_and_a_failure_is_not_kept() -> None:
    cache, made = PageCache(busy_page, bound(), lambda: 0.0), []
    for n in range(3 * MAX_PAGES):
        cache.get((str(n),), counting(made, str(n)))
    assert len(cache._pages) == MAX_PAGES
    with pytest.raises(ZeroDivisionError):
        cache.get(("x",), lambda: Page(1 // 0, ""))
    assert cache.get(("x",), counting(made, "x")).text == "x"


def test_few_pages_are_made_at_the_same_time_and_few_requests_wait() -> None:
    cache, busy, most, go_on, lock = PageCache(busy_page, bound()), [0], [0], threading.Event(), threading.Lock()

    def make() -> Page:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        go_on.wait(30)
        with lock:
            busy[0] -= 1
        return Page(200, "made")

    asked = MAX_MADE + MAX_WAITING + 5
    with ThreadPoolExecutor(asked) as threads:
        answers = [threads.submit(cache.get, (str(n),), make) for n in range(asked)]
        while sum(one.done() for one in answers) < 5:
            pass
        go_on.set()
        statuses = sorted(one.result().status for one in answers)
    assert statuses == [200] * (MAX_MADE + MAX_WAITING) + [503] * 5
    assert most == [MAX_MADE]
    assert cache.get(("later",), make).status == 200


def test_requests_of_many_homes_are_bounded_together() -> None:
    """A page of one home is made while pages of others are; beyond the bound a request does not wait."""
    shared, go_on = bound(), threading.Event()
    homes = [PageCache(busy_page, shared) for _ in range(MAX_OF_ALL)]
    begun = threading.Semaphore(0)

    def make() -> Page:
        begun.release()
        go_on.wait(20)
        return Page(200, "page")

    with ThreadPoolExecutor(MAX_OF_ALL) as pool:
        waiting = [pool.submit(home.get, ("x",), make) for home in homes]
        assert all(begun.acquire(timeout=20) for _ in homes)
        refused = PageCache(busy_page, shared).get(("x",), make)
        go_on.set()
        assert {future.result().status for future in waiting} == {200} and refused.status == busy_page().status
    assert PageCache(busy_page, shared).get(("x",), lambda: Page(200, "")).status == 200
