"""Start and use hosts that share nothing but an S3 server, by `three_hosts.sh`; for root on Linux only."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pststream.kernels.compile import cache_folder

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("three_hosts.sh")
GATEWAY = ROOT / "build" / "bin" / "versitygw"
PROBE = "ip netns add pst-probe-$$ && ip netns del pst-probe-$$ && unshare --mount --uts --ipc --pid --fork true"
MASTER = {"PSTSTREAM_SPARK_MASTER": "spark://10.77.0.3:7077", "PSTSTREAM_ENGINE": "spark"}


class Hosts:
    """The hosts; their files are below `state`. The variables are settings of the script."""

    def __init__(self, state: Path, **variables: str) -> None:
        self.state = state
        places = {"STATE": str(state), "CODE": str(ROOT), "AT": str(ROOT), "VENV": sys.prefix}
        self._environment = os.environ | places | {"VERSITYGW": str(GATEWAY)} | variables

    def call(self, *arguments: str, **variables: str) -> str:
        """Run the script, assert that it succeeds, show what it says (seconds of steps), and return its output."""
        done = subprocess.run(
            ["bash", SCRIPT, *arguments], env=self._environment | variables, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stderr[-4000:]}"
        print(done.stderr)
        return done.stdout

    def work(self, *arguments: str, **variables: str) -> None:
        """Run the scenario on the host of the driver."""
        self.call("run", "driver", "python", "-m", "tests.hosts.scenario", *arguments, **variables)

    def limit(self, name: str, cores: float) -> bool:
        """Bound the CPU time of a host by a control group; return whether that can be."""
        arguments = ["bash", SCRIPT, "limit", name, str(round(cores * 100_000))]
        return not subprocess.run(arguments, env=self._environment, capture_output=True).returncode

    def cpu_seconds(self, *names: str) -> list[float]:
        """Return the CPU seconds of the processes of each host."""
        return [float(self.call("cpu", name)) for name in names]


@contextmanager
def started(**variables: str) -> Iterator[Hosts]:
    """Run a store, a master and two workers until the block ends; skip the test where that cannot be."""
    if os.geteuid() or not GATEWAY.exists() or subprocess.run(PROBE, shell=True, capture_output=True).returncode:
        pytest.skip("needs root, network namespaces, and versitygw, which needs Go (make build/bin/versitygw)")
    state = Path(f"/var/tmp/pststream-hosts-{os.getpid()}")
    shutil.copytree(cache_folder(), state / "numba" / cache_folder().name)
    hosts = Hosts(state, **variables)
    try:
        hosts.call("start")
        yield hosts
    finally:
        hosts.call("stop")
        shutil.rmtree(state)
