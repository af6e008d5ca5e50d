"""A second worker host takes half of the work."""

import time

import pytest

from tests.hosts.hosts import Hosts, started

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(3600)]

CPU = 0.4
"""Cores that a worker host may take."""

ROUNDS = 2
WORKERS = ("w1", "w2")
SERVERS = {"connect": ("10.77.0.5", 1), "connect2": ("10.77.0.6", 2)}
"""Hosts of Spark Connect servers: the address, and on how many worker hosts the server has an executor of one core."""

FASTER = 1.6
LARGEST_SHARE = 0.6


def test_two_worker_hosts_share_the_work(capfd: pytest.CaptureFixture[str]) -> None:
    """Ingest and match the same files with one and with two worker hosts in turn; the first round warms them up.

    The machine may be busy, so wall times are printed, and what counts is CPU time: a host that may take 0.4 core needs
    its CPU seconds / 0.4 at least, and the run as long as the host that needs most.
    """
    with started(CORES="2") as hosts:
        for server, (_, cores) in SERVERS.items():
            hosts.call("serve", server, CORES=str(cores))
        hosts.work("generate", "/tmp/files")
        hosts.work("upload", "/tmp/files", "s3://city/in")
        taken: dict[str, list[tuple[float, list[float]]]] = {server: [] for server in SERVERS}
        for number in range(ROUNDS + 1):
            if number == 1:
                limited = all(hosts.limit(worker, CPU) for worker in WORKERS)
            for server in SERVERS:
                taken[server].append(run(hosts, server, f"s3://city/{server}-{number}"))
    one, two = (taken[server][1:] for server in SERVERS)
    with capfd.disabled():
        print(f"\neach worker host may take {CPU} core" if limited else "\nthere are no control groups")
        for (wall, cpu), (wall_of_two, cpu_of_two) in zip(one, two):
            print(f"one host {wall:.1f} s, CPU {cpu}; two hosts {wall_of_two:.1f} s, CPU {cpu_of_two}")
    assert min(max(cpu) / sum(cpu) for _, cpu in two) <= LARGEST_SHARE
    assert max(max(cpu) / max(cpu_of_two) for (_, cpu), (_, cpu_of_two) in zip(one, two)) >= FASTER


def run(hosts: Hosts, server: str, home: str) -> tuple[float, list[float]]:
    """Run the main job with a server; return the seconds, and the CPU seconds of each worker host meanwhile."""
    began, before = time.monotonic(), hosts.cpu_seconds(*WORKERS)
    remote = {"PSTSTREAM_SPARK_REMOTE": f"sc://{SERVERS[server][0]}:15002", "PSTSTREAM_ENGINE": "spark"}
    settings = {"PSTSTREAM_PLANNER": "kd_tree", "PSTSTREAM_WORKERS": "4"}
    hosts.call("run", "driver", "pststream", "run", "s3://city/in", "--home", home, **remote, **settings)
    after = hosts.cpu_seconds(*WORKERS)
    return time.monotonic() - began, [round(end - start, 2) for start, end in zip(before, after)]
