"""The deployment files, read without Docker or Kubernetes: pinned, unprivileged, not exposed, complete."""

import json
import os
import re
import runpy
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from pststream.base import names
from pststream.settings import setting_keys
from tests.docs.fences import blocks

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE = yaml.safe_load((INFRA / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VALUES = yaml.safe_load((INFRA / "kubernetes" / "values.yaml").read_text("utf-8"))
MANIFESTS = [
    one for name in ("storage", "spark") for one in yaml.safe_load_all((INFRA / "kubernetes" / f"{name}.yaml").open())
]
DIGEST = re.compile(r"\S+:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}")
OUR_IMAGE = "${PSTSTREAM_IMAGE:-pststream:latest}"
ONE_SHOT = {"prepare", "prepare-landing"}
WRITTEN = {
    "postgres": {"/tmp", "/var/run/postgresql", "/var/lib/postgresql/data"},
    "landing": {"/tmp", "/var/lib/pststream/landing", "/var/lib/pststream/landing-users"},
    "prepare-landing": {"/tmp"},
    "api-server": {"/tmp", "/var/lib/airflow", "/var/cache/pststream"},
    "scheduler": {"/tmp", "/var/lib/airflow", "/var/cache/pststream", "/var/lib/pststream/home"},
    "dag-processor": {"/tmp", "/var/lib/airflow"},
    "triggerer": {"/tmp", "/var/lib/airflow"},
    "spark-connect": {"/tmp", "/var/cache/pststream", "/var/lib/pststream/home"},
    "spark-master": {"/tmp"},
    "spark-worker-1": {"/tmp", "/var/cache/pststream", "/var/lib/pststream/home"},
    "spark-worker-2": {"/tmp", "/var/cache/pststream", "/var/lib/pststream/home"},
}
"""All that a service may write to; `prepare` makes the content of all volumes but that of the database."""

SPARK_CONF = "/var/lib/pststream/spark"


def pods() -> list[tuple[str, dict[str, Any]]]:
    return [
        (one["metadata"]["name"], one["spec"]["template"]["spec"])
        for one in MANIFESTS
        if "template" in one.get("spec", {})
    ]


def text_of(*places: str) -> str:
    return "\n".join((ROOT / place).read_text("utf-8") for place in places)


def test_base_images_are_pinned_by_tag_and_digest() -> None:
    bases = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.M))
    froms = re.findall(r"^FROM \$\{(\w+)\}", DOCKERFILE, re.M)
    assert len(froms) == DOCKERFILE.count("\nFROM ") and set(froms) == set(bases)
    assert all(DIGEST.fullmatch(image) for image in bases.values())


def test_the_image_ends_unprivileged_with_a_health_check_and_without_build_tools() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d*:0$", last, re.M) and "HEALTHCHECK" in last
    assert re.findall(r"apt-get install [-a-z ]+ --no-install-recommends (.+) \\$", last, re.M) == ["curl"]
    assert last.count("apt-get") == 2 and "rm -rf /var/lib/apt/lists/*" in last and "USER root" not in last


def test_the_image_has_the_program_by_which_airflow_asks_for_the_state_of_a_driver() -> None:
    provider = metadata.distribution("apache-airflow-providers-apache-spark")
    hook = Path(str(provider.locate_file("airflow/providers/apache/spark/hooks/spark_submit.py")))
    assert '"/usr/bin/curl"' in hook.read_text("utf-8"), "then the image needs no curl any more"


def test_what_the_image_copies_exists_and_is_in_the_build_context() -> None:
    kept = [line[1:] for line in text_of(".dockerignore").splitlines() if line.startswith("!")]
    copied = [file for line in re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.M) for file in line.split()]
    for name in [*kept, *copied]:
        assert (ROOT / name).exists(), name
    for name in set(copied) - {"."}:
        assert any(name == place or name.startswith(f"{place}/") for place in kept), f"{name} is not in .dockerignore"


def test_the_scripts_named_in_the_image_are_in_it() -> None:
    named = re.findall(r"/opt/pststream/([\w./-]+)", text_of("infra/compose.yaml", "infra/kubernetes/values.yaml"))
    assert len(named) > 5
    for name in {*named, *re.findall(r"\binfra/image/[\w.]+", DOCKERFILE)}:
        assert (ROOT / name).exists(), name


def test_no_step_of_a_script_is_misspelt() -> None:
    for script in sorted((INFRA / "image").glob("*.sh")):
        subprocess.run(["bash", "-n", script], check=True)
    assert set(re.findall(r"^(\w+)\)$", text_of("infra/image/build.sh"), re.M)) == set(
        re.findall(r"build\.sh (\w+)$", DOCKERFILE, re.M)
    )


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_unprivileged_checked_and_restarts(name: str) -> None:
    service = SERVICES[name]
    assert DIGEST.fullmatch(service["image"]) or service["image"] == OUR_IMAGE
    assert service["user"].split(":")[0] not in ("", "0", "root")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service and "network_mode" not in service
    assert service["restart"] == ("on-failure:3" if name in ONE_SHOT else "unless-stopped")
    assert service["healthcheck"].get("disable", False) == (name in ONE_SHOT)
    assert name in ONE_SHOT or service["healthcheck"]["test"][0] == "CMD"
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), f"{port} is reachable from other machines"


def written(service: dict[str, Any]) -> set[str]:
    """Return the folders of a service that are not read-only."""
    volumes = [volume.split(":") for volume in service.get("volumes", [])]
    return {place.split(":")[0] for place in service["tmpfs"]} | {path for _, path, *how in volumes if how != ["ro"]}


def test_all_that_a_service_writes_to_is_named() -> None:
    places = {name: written(service) for name, service in SERVICES.items()}
    volumes = {place for name in WRITTEN for place in WRITTEN[name] if place.startswith(("/var/lib/ps", "/var/c"))}
    assert places.pop("prepare") == volumes | {"/tmp", "/var/lib/airflow", SPARK_CONF}
    assert places == WRITTEN
    for name, service in SERVICES.items():
        if service["image"] == OUR_IMAGE:
            assert service["tmpfs"] == ["/tmp:exec,mode=1777"], f"{name}: Java loads libraries from /tmp"


def test_each_service_gets_the_keys_of_its_own_user_of_the_store() -> None:
    def users_of(name: str) -> set[str]:
        return {one for one, service in SERVICES.items() if f"${{{name}:?" in str(service.get("environment"))}

    for key in ("ACCESS_KEY", "SECRET_KEY"):
        assert users_of(f"LANDING_ROOT_{key}") == {"landing", "prepare-landing"}
        assert users_of(f"PRODUCER_{key}") == {"prepare-landing"}, "producers are elsewhere"
        reading = {"prepare", "prepare-landing", "api-server", "scheduler", "dag-processor", "triggerer"}
        assert users_of(f"LANDING_{key}") == reading


def test_spark_authenticates_wherever_it_runs() -> None:
    places = {name for name in SERVICES if name.startswith("spark-")} | {"scheduler"}
    for name in places:
        assert SERVICES[name]["environment"]["SPARK_CONF_DIR"] == SPARK_CONF
        assert f"spark:{SPARK_CONF}:ro" in SERVICES[name]["volumes"]
    assert "${SPARK_SECRET:?" in SERVICES["prepare"]["environment"]["SPARK_SECRET"]
    assert not [name for name in SERVICES if name != "prepare" and "SPARK_SECRET" in str(SERVICES[name])]
    [block] = [one for one in blocks(ROOT / "docs" / "where-it-runs.md") if "authentication" in one.words[1:]]
    lines = [line for line in block.text.splitlines() if "SECRET" not in line]
    assert text_of("infra/spark/authentication.conf").splitlines()[1:] == lines
    spark = [pod for name, pod in pods() if name.startswith("spark-")]
    for pod in (*spark, {"volumes": VALUES["scheduler"]["extraVolumes"], "containers": [VALUES["scheduler"]]}):
        [container] = pod["containers"]
        assert {"name": "SPARK_CONF_DIR", "value": "/etc/spark"} in container["env"]
        [mount] = [one for one in container.get("volumeMounts", []) if one["mountPath"] == "/etc/spark"] or [
            one for one in container["extraVolumeMounts"] if one["mountPath"] == "/etc/spark"
        ]
        assert mount["readOnly"]
        [volume] = [one for one in pod["volumes"] if one["name"] == mount["name"]]
        assert volume["secret"] == {"secretName": "pststream-spark", "defaultMode": 0o440}


def test_the_secret_of_spark_is_a_file_that_only_its_user_reads(tmp_path: Path) -> None:
    programs, conf = tmp_path / "programs", tmp_path / "conf"
    programs.mkdir()
    conf.mkdir()
    for name in ("airflow", "pststream"):
        (programs / name).symlink_to("/bin/true")
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "SPARK_CONF_DIR": str(conf), "SPARK_SECRET": "se & cret"}
    for _ in range(2):
        subprocess.run(["bash", INFRA / "image" / "prepare.sh"], env=variables, check=True)
    [file] = conf.iterdir()
    assert file.name == "spark-defaults.conf" and file.stat().st_mode & 0o777 == 0o600
    assert (
        file.read_text("utf-8") == text_of("infra/spark/authentication.conf") + "spark.authenticate.secret se & cret\n"
    )


def test_the_spark_connect_server_is_reached_by_airflow_alone() -> None:
    conn = json.loads(SERVICES["scheduler"]["environment"][f"AIRFLOW_CONN_{names.SPARK_CONNECTION.upper()}"])
    name, port = conn["host"].split(":")
    assert (conn["conn_type"], port) == ("spark_connect", "15002")
    assert {one for one, service in SERVICES.items() if "connect" in service.get("networks", [])} == {
        "scheduler",
        "spark-connect",
    }
    server = SERVICES["spark-connect"]
    assert COMPOSE["networks"] == {"connect": {"internal": True}}
    assert server["networks"]["connect"]["aliases"] == [name]
    assert f"spark.connect.grpc.binding.address={name}" in server["command"], "it listens in that network alone"
    [service] = [one for one in MANIFESTS if one["kind"] == "Service" and one["metadata"]["name"] == name]
    assert [one["port"] for one in service["spec"]["ports"]] == [int(port)]
    [policy] = [one for one in yaml.safe_load_all(text_of("infra/kubernetes/network.yaml")) if
                one["metadata"]["name"] == "spark-connect"]  # fmt: skip
    assert policy["spec"]["podSelector"]["matchLabels"] == service["spec"]["selector"]
    [rule] = [one for one in policy["spec"]["ingress"] if {"port": int(port), "protocol": "TCP"} in one["ports"]]
    assert rule["from"] == [
        {"podSelector": {"matchLabels": {"tier": "airflow", "component": one}}} for one in ("scheduler", "worker")
    ]
    for properties in (pod["containers"][0]["args"] for one, pod in pods() if one == "spark-connect"):
        assert "spark.cores.max=3" in properties, "another driver gets a core"
        ports = {int(word.rpartition("=")[2]) for word in properties if ".port=" in word}
        assert ports == {one["port"] for rule in policy["spec"]["ingress"] for one in rule["ports"]} - {int(port)}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_for_what_it_needs(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        wanted = "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
        assert how["condition"] == wanted
    for volume in SERVICES[name].get("volumes", []):
        assert volume.split(":")[0] in COMPOSE["volumes"]


def test_spark_is_given_an_option_and_its_value_as_two_words() -> None:
    commands = [words for one in SERVICES.values() if (words := one.get("command", [""]))[0] == "spark-class"]
    commands += [container["args"] for _, pod in pods() for container in pod["containers"]]
    assert len(commands) == 6
    for words in commands:
        assert not [word for word in words if word.startswith("--") and "=" in word], (
            "it would print its usage, and end"
        )


def test_secrets_come_from_the_environment_and_an_example_names_them() -> None:
    text = text_of("infra/compose.yaml")
    example = text_of("infra/env.example")
    secrets = set(re.findall(r"\$\{(\w+):\?", text))
    assert secrets == set(re.findall(r"^(\w+)=$", example, re.M)), "a secret without a line, or with a value"
    defaults = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", text))
    assert defaults == dict(re.findall(r"^#(\w+)=(\S+)$", example, re.M))
    assert ".env" in text_of(".gitignore").splitlines() and "!infra/.env" not in text_of(".dockerignore")
    for line in text.splitlines():
        if re.search(r"(PASSWORD|SECRET|_KEY)\w*:", line):
            assert ":?" in line, f"a secret in the file: {line}"


def test_variables_are_settings_that_exist() -> None:
    settings = {f"PSTSTREAM_{key.name.upper()}" for key in setting_keys()}
    read = set(re.findall(r"PSTSTREAM_[A-Z_]+[A-Z]", "\n".join(map(str, sources()))))
    places = ("Dockerfile", "infra/kubernetes/values.yaml", "infra/kubernetes/spark.yaml", "infra/compose.yaml")
    for name in set(re.findall(r"\bPSTSTREAM_[A-Z_]+", text_of(*places))) - {"PSTSTREAM_IMAGE"}:
        assert name in settings | read, f"nothing reads {name}"
    connection = f"AIRFLOW_CONN_{names.SPARK_CONNECTION.upper()}"
    [value] = [one["value"] for one in VALUES["env"] if one["name"] == connection]
    assert json.loads(value) == json.loads(SERVICES["scheduler"]["environment"][connection])
    assert (
        json.loads(value).keys()
        <= json.loads(text_of("infra/airflow/connections.json"))[connection[13:].lower()].keys()
    )


def sources() -> list[str]:
    """What reads variables that are not settings of a home."""
    files = [file for room in ("pststream", "jobs", "dags") for file in (ROOT / room).rglob("*.py")]
    return [file.read_text("utf-8") for file in files]


def test_airflow_in_the_values_is_the_one_that_is_locked() -> None:
    [locked] = re.findall(r"^apache-airflow==(\S+)", text_of("requirements.txt"), re.M)
    assert VALUES["airflowVersion"] == locked


@pytest.mark.parametrize(("name", "pod"), pods(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_pod_is_unprivileged_bounded_and_probed(name: str, pod: dict[str, Any]) -> None:
    image = f"{VALUES['images']['airflow']['repository']}:{VALUES['images']['airflow']['tag']}"
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    for container in pod["containers"]:
        assert container["image"] == image
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes_of(name, pod)
        assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {"requests", "limits"} <= container["resources"].keys()
        ports = {port["name"] for port in container["ports"]}
        assert {container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} <= ports


def volumes_of(name: str, pod: dict[str, Any]) -> set[str]:
    [spec] = [one["spec"] for one in MANIFESTS if one["kind"] == "StatefulSet" and one["metadata"]["name"] == name]
    claims = {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", [])}
    return claims | {volume["name"] for volume in pod["volumes"]}


def test_pods_that_read_a_bucket_have_an_account_and_a_region_and_take_little_of_a_disk() -> None:
    [account] = [one["metadata"]["name"] for one in MANIFESTS if one["kind"] == "ServiceAccount"]
    region = {"name": "AWS_REGION", "value": "us-east-1"}
    for _, pod in [one for one in pods() if one[0] != "spark-master"]:
        assert pod["serviceAccountName"] == account and region in pod["containers"][0]["env"]
    assert region in VALUES["env"]
    for component in ("scheduler", "apiServer", "triggerer"):
        assert VALUES[component]["serviceAccount"] == {"create": False, "name": account}
    limits = {one["name"]: int(one["emptyDir"]["sizeLimit"].removesuffix("Gi")) for one in VALUES["volumes"]}
    assert sum(limits.values()) <= 15
    [cache] = [int(one["value"]) for one in VALUES["env"] if one["name"] == "PSTSTREAM_CACHE_BYTES"]
    assert cache < limits["cache"] << 30, "a pod that exceeds the limit is ended"


def test_the_containers_of_the_chart_write_to_named_volumes() -> None:
    assert VALUES["securityContexts"]["containers"]["readOnlyRootFilesystem"] is True
    places = {mount["name"]: mount["mountPath"] for mount in VALUES["volumeMounts"]}
    assert places == {"tmp": "/tmp", "airflow-home": VALUES["airflowHome"], "cache": "/var/cache/node"}
    assert {volume["name"] for volume in VALUES["volumes"]} == set(places)
    assert {"name": "PSTSTREAM_CACHE_DIR", "value": "/var/cache/node"} in VALUES["env"]
    image = f"{VALUES['images']['airflow']['repository']}:{VALUES['images']['airflow']['tag']}"
    for component in ("scheduler", "apiServer"):
        [init] = VALUES[component]["extraInitContainers"]
        assert init["image"] == image and init["securityContext"]["readOnlyRootFilesystem"]
        volumes = {volume["name"] for volume in VALUES[component]["extraVolumes"]}
        assert {mount["name"] for mount in VALUES[component]["extraVolumeMounts"]} == volumes


def test_claims_and_services_of_pods_exist() -> None:
    there = {(one["kind"], one["metadata"]["name"]) for one in MANIFESTS}
    claims = re.findall(
        r"(?:claimName|existingClaim): ([\w-]+)", text_of("infra/kubernetes/spark.yaml") + yaml.dump(VALUES)
    )
    assert claims and all(("PersistentVolumeClaim", name) in there for name in claims)
    for one in MANIFESTS:
        assert one["metadata"]["namespace"] == "pststream"
        if one["kind"] == "StatefulSet":
            assert ("Service", one["spec"]["serviceName"]) in there
            assert (
                one["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
            )


def test_test_requirements_are_separate() -> None:
    prune = runpy.run_path(str(INFRA / "image" / "prune.py"))
    kept = prune["with_dependencies"]([prune["Requirement"](name) for name in ("apache-airflow", "boto3")])
    assert {"psutil", "sqlalchemy", "botocore"} <= kept, "what Airflow itself needs stays, though tests need it too"
    assert not {"pytest", "moto", "playwright"} & kept
    assert prune["HEADING"] in text_of("requirements.in")
