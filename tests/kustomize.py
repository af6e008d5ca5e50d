"""Render a kustomization as `kubectl kustomize` does, as far as ours need it: resources, and patches that add."""

from pathlib import Path
from typing import Any

import yaml

PARTS = {"apiVersion", "kind", "resources", "patches"}


def render(folder: Path) -> list[dict[str, Any]]:
    """Return the manifests of a kustomization."""
    document = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    assert document.keys() <= PARTS, document.keys() - PARTS
    manifests: list[dict[str, Any]] = []
    for name in document["resources"]:
        resource = folder / name
        manifests += render(resource) if resource.is_dir() else yaml.safe_load_all(resource.read_text("utf-8"))
    for patch in document.get("patches", []):
        kind, name = patch["target"]["kind"], patch["target"]["name"]
        [manifest] = [one for one in manifests if (one["kind"], one["metadata"]["name"]) == (kind, name)]
        for operation in yaml.safe_load(patch["patch"]):
            assert operation["op"] == "add"
            add(manifest, operation["path"], operation["value"])
    return manifests


def add(manifest: Any, path: str, value: Any) -> None:
    """Add a value at a JSON pointer; `-` is the end of a list."""
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    for part in parents:
        manifest = manifest[int(part) if isinstance(manifest, list) else part]
    if isinstance(manifest, list):
        manifest.insert(len(manifest) if last == "-" else int(last), value)
    else:
        manifest[last] = value
