"""Choose the bucket objects (uploaded files) that are ready for ingest; a group of files waits for its manifest.

A bucket object exists only when it is complete, so a single file is ready at once. Files that belong together are
uploaded under names that are otherwise ignored (the name, or a folder above, begins with `_`). A manifest, uploaded
last, lists them: `_manifests/<name>.json` with {"files": [{"key": …, "etag": …, "size": …}, …]}, the keys relative to
the folder. The manifest is the commit of its files: they are ready when all exist with these ETags and sizes. Other
keys that it lists do not count, so no manifest holds back a file with an ordinary name.
"""

import datetime as dt
import json
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pststream.input.input_files import has_format, is_left_out
from pststream.queries.decode_json import NestedTooDeeply, decode_json
from pststream.storage.contract import StoredObject

MAX_NAME_BYTES = 255
FOLDER = "_manifests/"
MAX_MANIFEST_BYTES = 16 << 20


@dataclass(frozen=True)
class Manifest:
    """A manifest: its bucket object, (ETag, size or None) of each listed key, and `fault` if it cannot be read."""

    stored: StoredObject
    files: Mapping[str, tuple[str, int | None]]
    fault: str = ""


@dataclass(frozen=True)
class PendingObject:
    """A bucket object that is not ready: its key, the reason, and the time since which it waits."""

    key: str
    reason: str
    since: dt.datetime


def is_manifest(folder: str, key: str) -> bool:
    """Whether an object below `folder` is a manifest."""
    return key.startswith(folder + FOLDER) and key.endswith(".json")


def find_key_fault(key: str) -> str:
    """Return why the key of a bucket object cannot be the path of an input file; empty if it can.

    A store may list a key that is not UTF-8 with replacement characters, under which it does not find it.
    """
    name = key.rpartition("/")[2]
    if "\ufffd" in key or any(unicodedata.category(one) == "Cs" for one in key):
        return "its key is not UTF-8"
    if any(unicodedata.category(one) == "Cc" for one in key):
        return "its key has control characters"
    if not name or any(part in (".", "..") for part in key.split("/")):
        return "its key ends with / or has a part . or .."
    return f"its name has more than {MAX_NAME_BYTES} bytes" if len(name.encode()) > MAX_NAME_BYTES else ""


def parse_manifest(stored: StoredObject, folder: str, content: bytes) -> Manifest:
    """Parse a manifest, with absolute keys, those that wait for one; an invalid manifest has a fault and no files."""
    if len(content) > MAX_MANIFEST_BYTES:
        return Manifest(stored, {}, f"not a manifest: larger than {MAX_MANIFEST_BYTES} bytes")
    try:
        text = content.decode(json.detect_encoding(content), "surrogatepass")
        entries = decode_json(text)["files"]
        files = {_text(entry["key"]): (_text(entry["etag"]).strip('"'), _size(entry)) for entry in entries}
    except NestedTooDeeply as error:
        return Manifest(stored, {}, f"not a manifest: {error}")
    except (ValueError, TypeError, KeyError):
        return Manifest(stored, {}, 'not a manifest: expected {"files": [{"key": …, "etag": …, "size": …}, …]}')
    return Manifest(stored, {folder + key: expected for key, expected in files.items() if _waits(key.split("/"))})


def _waits(parts: Iterable[str]) -> bool:
    """Whether a key with these parts below the folder is ready only when a manifest lists it."""
    return any(map(is_left_out, parts))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("not a text")
    return value


def _size(entry: dict[str, object]) -> int | None:
    size = entry.get("size")
    if size is not None and type(size) is not int:
        raise ValueError("not a size")
    return size


def find_missing(manifest: Manifest, existing: Mapping[str, StoredObject]) -> list[PendingObject]:
    """Return the listed files that are missing or differ, or the faulty manifest; `existing`: bucket objects by key."""
    since, name = manifest.stored.modified, manifest.stored.key
    if manifest.fault:
        return [PendingObject(name, manifest.fault, since)]
    pending = []
    for key, (etag, size) in manifest.files.items():
        one = existing.get(key)
        if one is None:
            pending.append(PendingObject(key, f"{name} lists it, but it does not exist", since))
        elif one.etag != etag or size not in (None, one.bytes):
            pending.append(PendingObject(key, f"{name} lists it with another ETag or size", since))
    return pending


def choose_ready(
    folder: str,
    objects: Sequence[StoredObject],
    manifests: Iterable[Manifest],
    ingested: Collection[str],
    format: str | None = None,
) -> tuple[list[StoredObject], list[PendingObject]]:
    """Return the ready bucket objects below `folder` whose keys are not in `ingested`, in order, and the pending ones.

    manifests: the manifests that are not done yet. An object that only incomplete manifests list is not ready.
    """
    existing = {one.key: one for one in objects}
    listed: set[str] = set()
    complete: set[str] = set()
    pending: list[PendingObject] = []
    for manifest in manifests:
        missing = find_missing(manifest, existing)
        pending += missing
        listed.update(manifest.files)
        complete.update(() if missing else manifest.files)
    ready = []
    for one in objects:
        *folders, name = one.key[len(folder) :].split("/")
        if folders and not name and one.bytes and has_format(folders[-1], format):
            pending.append(PendingObject(one.key, find_key_fault(one.key), one.modified))
        if one.key in ingested or not has_format(name, format) or is_manifest(folder, one.key):
            continue
        if one.key in complete:
            ready.append(one)
        elif one.key not in listed and _waits([*folders, name]):
            pending.append(PendingObject(one.key, "no manifest lists it", one.modified))
        elif one.key not in listed:
            ready.append(one)
    return ready, pending
