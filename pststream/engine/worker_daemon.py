"""Fork the Python workers of Spark on this machine; an idle worker ends without a traceback when Spark dismisses it.

When Spark stops, it closes the sockets of idle workers and then ends the daemon of pyspark. Between the two a worker
fails to read its next task, fails to send that error, and prints a traceback (`BrokenPipeError`). Here a worker waits
for its next task, and ends if the socket is closed instead. Errors of tasks are sent and printed as ever.
"""

import os
import socket

from pyspark import daemon

_run_task = daemon.worker


def wait_and_run_task(sock: socket.socket, authenticated: bool) -> int:
    """Wait for a task, run it and return its exit code; end this process if Spark closes the socket before."""
    try:
        dismissed = not sock.recv(1, socket.MSG_PEEK)
    except ConnectionError:
        dismissed = True
    if dismissed:
        os._exit(0)
    return _run_task(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = wait_and_run_task
    daemon.manager()
