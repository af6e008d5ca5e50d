"""The Spark Connect server of compose and Kubernetes runs the steps of a job on the nodes of a standalone cluster."""

import socket
import sys
from pathlib import Path

import pytest

from tests.commands import Home, run_apart
from tests.dags.landing_folder import PAIRS, fill_landing
from tests.moto_process import free_port
from tests.spark_cluster import LOOPBACK, ROOT, Cluster, Process, eventually

pytestmark = [pytest.mark.deep, pytest.mark.spark, pytest.mark.e2e, pytest.mark.timeout(900)]

SERVER = ROOT / "infra" / "image" / "spark_connect.py"


def test_a_job_runs_on_a_cluster_by_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PSTSTREAM_ENGINE", raising=False)
    home, port = Home(tmp_path / "home"), free_port()
    landing = fill_landing(tmp_path / "landing")
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.add("node", "other")
        properties = [f"spark.connect.grpc.binding.port={port}", "spark.ui.port=0"]
        properties += [f"spark.connect.grpc.binding.address={LOOPBACK}"]
        server = Process(
            f"exec {sys.executable} {SERVER} {' '.join(properties)}",
            tmp_path / "server",
            PSTSTREAM_SPARK_MASTER=cluster.url,
            PSTSTREAM_SPARK_DRIVER_MEMORY="512m",
            SPARK_LOCAL_IP=LOOPBACK,
            SPARK_CONF_DIR=cluster.configuration("conf-server", None),
        )
        try:
            eventually(lambda: listens(port), "no server")
            variables = {"SPARK_REMOTE": f"sc://{LOOPBACK}:{port}", "PSTSTREAM_WORKERS": "2"}
            done = run_apart("run", landing, "--home", home.path, environment=variables)
            assert done.code == 0, done.err
            pairs = [(object_id, subscription_id) for object_id, _, subscription_id in home.exported()]
            assert pairs == PAIRS
            assert any(node.segments() for node in cluster.nodes.values()), "the nodes match"
        finally:
            server.kill()


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((LOOPBACK, port)) == 0
