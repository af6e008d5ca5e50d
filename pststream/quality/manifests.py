"""Which objects of a bucket are ready to be taken in, and which wait.

An object is there whole or not at all, so a file by itself is taken as it is. Files that belong together lie under a
name that is left out otherwise (it, or a folder above it, begins with `_`), and are named by a manifest, uploaded last:
`_manifests/<name>.json` holds {"files": [{"key": …, "etag": …, "size": …}, …]}, the keys relative to the folder. The
manifest is the commit: what it names is taken once all of it is there as told.
"""

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pststream.quality.input_files import has_format, is_left_out
from pststream.storage.contract import StoredObject

FOLDER = "_manifests/"
MOST_BYTES = 16 << 20
"""Of a manifest."""


@dataclass(frozen=True)
class Manifest:
    """The object, and the (ETag, size or None) of each key that it names; why it is none, if it is none."""

    stored: StoredObject
    files: Mapping[str, tuple[str, int | None]]
    fault: str = ""


@dataclass(frozen=True)
class Waiting:
    """A key that waits: for what, since when."""

    key: str
    reason: str
    since: dt.datetime


def is_manifest(folder: str, key: str) -> bool:
    """Whether a key below `folder` is that of a manifest."""
    return key.startswith(folder + FOLDER) and key.endswith(".json")


def parse_manifest(stored: StoredObject, folder: str, content: bytes) -> Manifest:
    """The manifest that `content` is, keys made absolute; one with a fault and no files if it is none."""
    if len(content) > MOST_BYTES:
        return Manifest(stored, {}, f"no manifest: larger than {MOST_BYTES} bytes")
    try:
        entries = json.loads(content)["files"]
        files = {folder + _text(entry["key"]): (_text(entry["etag"]).strip('"'), _size(entry)) for entry in entries}
    except (ValueError, TypeError, KeyError, RecursionError):
        return Manifest(stored, {}, 'no manifest: {"files": [{"key": …, "etag": …, "size": …}, …]} is wanted')
    return Manifest(stored, files)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("not a text")
    return value


def _size(entry: dict[str, object]) -> int | None:
    size = entry.get("size")
    if size is not None and type(size) is not int:
        raise ValueError("not a size")
    return size


def lacking(manifest: Manifest, there: Mapping[str, StoredObject]) -> list[Waiting]:
    """What keeps a manifest from being complete; `there`: the objects by key."""
    since, name = manifest.stored.modified, manifest.stored.key
    if manifest.fault:
        return [Waiting(name, manifest.fault, since)]
    found = []
    for key, (etag, size) in manifest.files.items():
        one = there.get(key)
        if one is None:
            found.append(Waiting(key, f"{name} names it, and it is not there", since))
        elif one.etag != etag or size not in (None, one.bytes):
            found.append(Waiting(key, f"{name} tells another ETag or size of it", since))
    return found


def choose(
    folder: str,
    objects: Sequence[StoredObject],
    manifests: Iterable[Manifest],
    taken: Collection[str],
    format: str | None = None,
) -> tuple[list[StoredObject], list[Waiting]]:
    """The objects below `folder` that are ready and not among the keys `taken`, in their order; and what waits.

    `manifests`: those that are not done with. An object named only by manifests that are not complete is not ready.
    """
    there = {one.key: one for one in objects}
    named: set[str] = set()
    complete: set[str] = set()
    waiting: list[Waiting] = []
    for manifest in manifests:
        missing = lacking(manifest, there)
        waiting += missing
        named.update(manifest.files)
        complete.update(() if missing else manifest.files)
    ready = []
    for one in objects:
        *folders, name = one.key[len(folder) :].split("/")
        if one.key in taken or not has_format(name, format) or is_manifest(folder, one.key):
            continue
        if one.key in complete:
            ready.append(one)
        elif one.key not in named and any(map(is_left_out, [*folders, name])):
            waiting.append(Waiting(one.key, "no manifest names it", one.modified))
        elif one.key not in named:
            ready.append(one)
    return ready, waiting
