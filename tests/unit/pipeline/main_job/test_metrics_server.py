"""The watcher's server answers GET /metrics with the metrics of the home, where it was asked to, and nothing else."""

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest

from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import no_progress
from pststream.pipeline.main_job.metrics_server import LOOPBACK, Address, serve_metrics
from pststream.reports.commands.metrics import CONTENT_TYPE, render_metrics
from pststream.state.home import Home
from tests.commands import run_here


@pytest.fixture
def served(hand_home: Home) -> Iterator[Address]:
    with serve_metrics(hand_home, Address(LOOPBACK, 0), no_progress) as place:
        assert place is not None
        yield place


def get(place: Address, path: str = "/metrics", method: str = "GET") -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://{place}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def names_of(text: str) -> list[str]:
    return [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]


def test_the_metrics_are_those_of_the_command(served: Address, hand_home: Home) -> None:
    status, content_type, text = get(served)
    assert (status, content_type) == (200, CONTENT_TYPE)
    assert names_of(text) == names_of(render_metrics(hand_home)) and "pststream_build_info" in text
    assert get(served, "/metrics?x=1")[0] == 200
    assert [get(served, path)[0] for path in ("/", "/metrics/", "/../etc/passwd")] == [404] * 3
    assert [get(served, method=method)[0] for method in ("POST", "PUT", "DELETE")] == [501] * 3


def test_it_listens_where_it_was_asked_to_only(served: Address, hand_home: Home) -> None:
    assert served.host == LOOPBACK
    with socket.socket() as other, pytest.raises(OSError):
        other.settimeout(5)
        other.connect(("127.0.0.2", served.port))
    with serve_metrics(hand_home, None, no_progress) as place:
        assert place is None
        assert [one.name for one in threading.enumerate()].count("metrics") == 1, "that of the other server"


def test_no_page_of_another_name_reads_it(served: Address) -> None:
    for host, status in (("localhost:1", 200), ("[::1]", 200), ("evil.example", 421), ("[::1", 421), ("", 421)):
        with socket.create_connection(served, timeout=30) as connection:
            connection.sendall(f"GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            assert connection.makefile().readline().split()[1] == str(status), host


def test_a_client_that_sends_byte_by_byte_keeps_nobody_waiting(hand_home: Home) -> None:
    ended = threading.Event()

    def send_slowly(place: Address) -> None:
        with socket.create_connection(place) as slow, suppress(OSError):
            while not ended.wait(0.2):
                slow.sendall(b"G")

    with serve_metrics(hand_home, Address(LOOPBACK, 0), no_progress) as place:
        assert place is not None
        client = threading.Thread(target=send_slowly, args=(place,))
        client.start()
        try:
            time.sleep(0.5)
            assert get(place)[0] == 200
        finally:
            ended.set()
            client.join()


def test_it_ends_with_its_block(hand_home: Home) -> None:
    with serve_metrics(hand_home, Address(LOOPBACK, 0), no_progress) as place:
        assert place is not None and get(place)[0] == 200
    with pytest.raises(OSError):
        get(place)
    with serve_metrics(hand_home, place, no_progress):
        assert get(place)[0] == 200, "a watcher that starts again has its port at once"


def test_a_port_in_use_may_be_free_later_and_a_wrong_address_will_not(served: Address, hand_home: Home) -> None:
    with pytest.raises(RetryableError, match="cannot listen on 127.0.0.1"), serve_metrics(hand_home, served, print):
        pass
    with pytest.raises(UsageError), serve_metrics(hand_home, Address("192.0.2.1", 0), no_progress):
        pass


def test_a_home_that_cannot_be_read_is_503_and_one_warning(hand_home: Home) -> None:
    messages: list[str] = []
    home = Home(f"{hand_home.path}-missing")
    with serve_metrics(home, Address(LOOPBACK, 0), messages.append) as place:
        assert place is not None
        answers = [get(place) for _ in range(2)]
    assert [status for status, _, _ in answers] == [503, 503] and "cannot be read" in answers[0][2]
    assert len([text for text in messages if "cannot be rendered" in text]) == 1


@pytest.mark.parametrize(
    "words", [["--metrics=9464"], ["--watch", "--metrics=65536"], ["--watch", "--metrics=localhost:x"]]
)
def test_arguments_that_cannot_work_are_refused(hand_home: Home, words: list[str]) -> None:
    done = run_here("run", f"{hand_home.path}/landing", "--home", hand_home.path, *words)
    assert done.code == 2 and "--metrics" in done.err
