"""The kustomizations render, and what they render is valid, unprivileged and probed; only metrics open a port."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pststream.base.names import HEARTBEAT
from pststream.reports.reading.home_figures import GONE_SECONDS
from pststream.settings import setting_keys
from tests.kustomize import render

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "infra" / "kubernetes"
KUSTOMIZATIONS = [FOLDER, *sorted(file.parent for file in FOLDER.glob("*/kustomization.yaml"))]
VERSIONS = ("1.35", "1.37")
"""Versions of Kubernetes whose schemas the manifests keep."""

ALIVE = ROOT / "infra" / "image" / "watcher_alive.py"


def watcher(folder: str) -> dict[str, Any]:
    [deployment] = [one for one in render(FOLDER / folder) if one["kind"] == "Deployment"]
    return deployment


def test_every_manifest_belongs_to_a_kustomization() -> None:
    listed = set()
    for folder in KUSTOMIZATIONS:
        resources = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))["resources"]
        listed |= {(folder / name).resolve() for name in resources if name.endswith(".yaml")}
    others = {FOLDER / "values.yaml", *(folder / "kustomization.yaml" for folder in KUSTOMIZATIONS)}
    assert listed == set(FOLDER.rglob("*.yaml")) - others


def test_the_commands_of_the_documentation_name_kustomizations() -> None:
    texts = [file.read_text("utf-8") for file in (*(ROOT / "docs").glob("*.md"), *FOLDER.rglob("*.yaml"))]
    named = {ROOT / name for text in texts for name in re.findall(r"--kustomize (infra/[\w/-]+)", text)}
    assert named == set(KUSTOMIZATIONS)


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("version", VERSIONS)
def test_rendered_manifests_keep_the_schemas_of_kubernetes(folder: Path, version: str) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="packages have changed: make setup")
    for manifest in render(folder):
        schemas.validate(manifest, version, strict=True)
        assert manifest["metadata"]["namespace"] == "pststream"


def test_the_schemas_refuse_a_misspelt_key_and_a_wrong_type() -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="packages have changed: make setup")
    for key, value in (("replica", 1), ("replicas", "one")):
        manifest = watcher("watcher")
        manifest["spec"][key] = value
        with pytest.raises(schemas.ValidationError):
            schemas.validate(manifest, VERSIONS[0], strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: folder.name)
def test_kubectl_renders_the_same(folder: Path) -> None:
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True)
    rendered = list(yaml.safe_load_all(done.stdout))

    def by_name(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(manifests, key=lambda one: (one["kind"], one["metadata"]["name"]))

    assert by_name(rendered) == by_name(render(folder))


@pytest.mark.parametrize("folder", ["watcher", "watcher-metrics"])
def test_one_watcher_at_a_time_without_privileges(folder: str) -> None:
    spec = watcher(folder)["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = spec["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    claims = {one["metadata"]["name"] for place in (".", folder) for one in render(FOLDER / place)}
    volumes = [one["persistentVolumeClaim"] for one in pod["volumes"] if "persistentVolumeClaim" in one]
    assert {one["claimName"] for one in volumes} <= claims
    images = {one["image"] for one in (*pod["initContainers"], *pod["containers"])}
    values = yaml.safe_load((FOLDER / "values.yaml").read_text("utf-8"))["images"]["airflow"]
    assert images == {f"{values['repository']}:{values['tag']}"}
    for container in (*pod["initContainers"], *pod["containers"]):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= container["resources"].keys() and container["resources"]["limits"]["memory"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in pod["volumes"]}
    settings = {f"PSTSTREAM_{key.name.upper()}" for key in setting_keys()} | {"PSTSTREAM_HOME", "PSTSTREAM_LOG"}
    own = {one["name"] for one in pod["containers"][0]["env"]}
    assert own - {"POD_IP"} <= settings


def test_only_metrics_open_a_port() -> None:
    [container] = watcher("watcher")["spec"]["template"]["spec"]["containers"]
    assert "ports" not in container and "--metrics" not in container["args"]
    [policy] = [one for one in render(FOLDER / "watcher") if one["kind"] == "NetworkPolicy"]
    assert policy["spec"]["policyTypes"] == ["Ingress"] and "ingress" not in policy["spec"]

    deployment = watcher("watcher-metrics")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    [port] = container["ports"]
    assert container["args"][-2:] == ["--metrics", f"$(POD_IP):{port['containerPort']}"]
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    policies = [one for one in render(FOLDER / "watcher-metrics") if one["kind"] == "NetworkPolicy"]
    admitted = [rule for one in policies for rule in one["spec"].get("ingress", [])]
    assert [rule["ports"] for rule in admitted] == [[{"port": port["name"], "protocol": "TCP"}]]


DRIVER = {"tier": "airflow", "component": "scheduler", "release": "airflow"}
LABELS = {
    "scheduler": DRIVER,
    "api-server": DRIVER | {"component": "api-server"},
    "task": DRIVER | {"component": "worker"},
    "triggerer": DRIVER | {"component": "triggerer"},
    "dag-processor": DRIVER | {"component": "dag-processor"},
    "master": {"app": "spark-master", "part-of": "spark"},
    "node": {"app": "spark-worker", "part-of": "spark"},
    "connect": {"app": "spark-connect"},
    "watcher": {"app": "watcher"},
    "stranger": {"app": "anything"},
    "impostor": {"component": "scheduler"},
}
"""The labels of pods; those of Airflow are the chart's."""

ADMITTED = {
    ("master", "node"), ("node", "master"), ("master", "master"), ("node", "node"),
    ("scheduler", "master"), ("scheduler", "node"), ("master", "scheduler"), ("node", "scheduler"),
    ("task", "master"), ("task", "node"), ("task", "connect"), ("task", "api-server"),
    ("master", "task"), ("node", "task"),
    ("scheduler", "connect"), ("master", "connect"), ("node", "connect"), ("connect", "master"), ("connect", "node"),
    ("scheduler", "api-server"), ("triggerer", "api-server"), ("dag-processor", "api-server"),
    ("api-server", "api-server"),
}  # fmt: skip
"""Who may open connections to whom."""


@cache
def policies() -> list[dict[str, Any]]:
    return [one for folder in (".", "watcher") for one in render(FOLDER / folder) if one["kind"] == "NetworkPolicy"]


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert selector.keys() == {"matchLabels"}
    return selector["matchLabels"].items() <= labels.items()


def is_admitted(source: dict[str, str], target: dict[str, str]) -> bool:
    """Whether policies let a pod reach another one of its namespace: any rule of any policy of the target suffices."""
    own = [one["spec"] for one in policies() if selects(one["spec"]["podSelector"], target)]
    peers = [peer for spec in own for rule in spec.get("ingress", []) for peer in rule["from"]]
    return not own or any(selects(peer["podSelector"], source) for peer in peers)


@pytest.mark.parametrize("target", sorted(LABELS.keys() - {"stranger", "impostor"}))
def test_a_pod_is_reached_only_by_those_that_need_it(target: str) -> None:
    admitted = {source for source in LABELS if is_admitted(LABELS[source], LABELS[target])}
    assert admitted == {source for source, one in ADMITTED if one == target}


def test_the_labels_of_our_pods_are_those_of_the_policies() -> None:
    manifests = [
        one for folder in (".", "watcher") for one in render(FOLDER / folder) if "template" in one.get("spec", {})
    ]
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in manifests]
    assert sorted(map(str, labels)) == sorted(str(LABELS[name]) for name in ("connect", "master", "node", "watcher"))


def test_the_arguments_of_the_watcher_are_those_of_the_command() -> None:
    from pststream.cli.arguments import build_parser

    for folder, address in (("watcher", None), ("watcher-metrics", ("10.0.0.7", 9464))):
        words = watcher(folder)["spec"]["template"]["spec"]["containers"][0]["args"]
        program, *rest = (word.replace("$(POD_IP)", "10.0.0.7") for word in words)
        arguments = build_parser().parse_args(rest)
        assert (program, arguments.watch, arguments.metrics) == ("pststream", True, address)


@pytest.mark.parametrize(
    ("state", "seconds", "code"),
    [("idle", 0, 0), ("working", 15, 0), ("idle", 60, 1), ("stopped", 0, 1), ("failed", 0, 1), (None, 0, 1)],
)
def test_a_probe_reads_the_heartbeat(tmp_path: Path, state: str | None, seconds: float, code: int) -> None:
    if state:
        at = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        (tmp_path / HEARTBEAT).write_text(json.dumps({"state": state, "at": at}), "utf-8")
    done = subprocess.run(
        [sys.executable, ALIVE], env=os.environ | {"PSTSTREAM_HOME": str(tmp_path)}, capture_output=True, check=False
    )
    assert (done.returncode, bool(done.stderr)) == (code, bool(code))


def test_the_probe_waits_as_long_as_status_does() -> None:
    assert runpy.run_path(str(ALIVE))["SECONDS"] == GONE_SECONDS
