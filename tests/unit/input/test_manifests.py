"""What of a bucket is ready: by named cases, and against a rule a key, on random ones."""

import datetime as dt
import json
import random
from typing import Any

import pytest

from pststream.input.manifests import MAX_MANIFEST_BYTES, Manifest, choose_ready, find_key_fault, parse_manifest
from pststream.storage.contract import StoredObject

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def stored(key: str, etag: str = "e", size: int = 1) -> StoredObject:
    return StoredObject(key, etag, size, NOW)


def manifest(name: str, **files: Any) -> Manifest:
    return Manifest(stored(f"in/_manifests/{name}.json"), {f"in/{key}": told for key, told in files.items()})


def keys(found: list[Any]) -> list[str]:
    return [one.key for one in found]


def test_a_file_by_itself_is_ready() -> None:
    objects = [stored(f"in/{name}") for name in ("a.csv", "b.txt", "folder/", "sub/c.jsonl.gz")]
    assert choose_ready("in/", objects, [], ()) == ([objects[0], objects[3]], [])
    assert keys(choose_ready("in/", objects, [], {"in/a.csv"})[0]) == ["in/sub/c.jsonl.gz"]
    assert keys(choose_ready("in/", objects, [], (), "csv")[0]) == ["in/a.csv"]
    assert keys(choose_ready("", objects, [], ())[0]) == ["in/a.csv", "in/sub/c.jsonl.gz"]


def test_what_is_left_out_waits_for_a_manifest() -> None:
    objects = [stored(f"in/{name}") for name in ("_1/a.csv", "_1/_SUCCESS", "_manifests/m.json", "b.csv")]
    ready, waiting = choose_ready("in/", objects, [], ())
    assert (keys(ready), keys(waiting)) == (["in/b.csv"], ["in/_1/a.csv"])
    ready, waiting = choose_ready(
        "in/", objects, [manifest("m", **{"_1/a.csv": ("e", 1), "_1/_SUCCESS": ("e", None)})], ()
    )
    assert (keys(ready), waiting) == (["in/_1/a.csv", "in/b.csv"], [])


@pytest.mark.parametrize("told", [("other", 1), ("e", 2), None])
def test_a_manifest_is_taken_whole_or_not_at_all(told: Any) -> None:
    objects = [stored(f"in/{name}") for name in ("_1/a.csv", "_1/b.csv", "c.csv", "d.csv")]
    named = {"_1/a.csv": ("e", 1), "d.csv": ("e", 1), "_1/b.csv" if told else "_1/gone.csv": told or ("e", 1)}
    ready, waiting = choose_ready("in/", objects, [manifest("m", **named)], ())
    assert keys(ready) == ["in/c.csv"]
    assert waiting[0].key == ("in/_1/b.csv" if told else "in/_1/gone.csv")
    assert "in/_manifests/m.json" in waiting[0].reason


def test_reading_a_manifest() -> None:
    listed = [
        {"key": "_1/a.csv", "etag": '"e"', "size": 3},
        {"key": "_b.csv", "etag": "f"},
        {"key": "c/d.csv", "etag": "f"},
    ]
    content = {"files": listed, "by": "us"}
    read = parse_manifest(stored("in/_manifests/m.json"), "in/", json.dumps(content).encode())
    assert (read.files, read.fault) == ({"in/_1/a.csv": ("e", 3), "in/_b.csv": ("f", None)}, "")


def test_no_manifest_holds_back_a_file_with_an_ordinary_name() -> None:
    listed = [{"key": name, "etag": "e"} for name in ("now.csv", "later.csv", "_1/gone.csv")]
    read = parse_manifest(stored("in/_manifests/m.json"), "in/", json.dumps({"files": listed}).encode())
    ready, waiting = choose_ready("in/", [stored("in/now.csv"), stored("in/_1/b.csv")], [read], ())
    assert (keys(ready), keys(waiting)) == (["in/now.csv"], ["in/_1/gone.csv", "in/_1/b.csv"])


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"files": null}', b'{"files": [1]}', b'{"files": [{"key": "a"}]}', b"\xff",
        b'{"files": [{"key": 1, "etag": "e"}]}', b'{"files": [{"key": "", "etag": "e"}]}',
        b'{"files": [{"key": "a", "etag": "e", "size": "1"}]}', b'{"files": [{"key": "a", "etag": "e", "size": true}]}',
        b"[" * 100_000, b" " * (MAX_MANIFEST_BYTES + 1),
    ],
)  # fmt: skip
def test_what_is_no_manifest_names_nothing_and_waits(content: bytes) -> None:
    read = parse_manifest(stored("in/_manifests/m.json"), "in/", content)
    assert read.files == {} and read.fault.startswith("not a manifest")
    ready, waiting = choose_ready("in/", [stored("in/a.csv")], [read], ())
    assert (keys(ready), keys(waiting)) == (["in/a.csv"], ["in/_manifests/m.json"])


def test_each_key_by_the_rule() -> None:
    for seed in range(200):
        check_each_key(seed)


def check_each_key(seed: int) -> None:
    """Compare what is ready of a random bucket with a rule a key; a failure shows the seed."""
    draw = random.Random(seed)
    names = ["a.csv", "b.csv", "_1/c.csv", "_1/d.csv", "_2/e.csv"]
    objects = [stored(f"in/{name}", draw.choice("xy")) for name in names if draw.random() < 0.8]
    manifests = [
        manifest(str(n), **{name: (draw.choice("xxxy"), 1) for name in draw.sample(names, draw.randint(0, 3))})
        for n in range(draw.randint(0, 3))
    ]
    taken = {one.key for one in objects if draw.random() < 0.2}
    etags = {one.key: one.etag for one in objects}

    def is_ready(key: str) -> bool:
        naming = [one for one in manifests if key in one.files]
        if any(all(etags.get(k) == etag for k, (etag, _) in one.files.items()) for one in naming):
            return True
        return not naming and "/_" not in key

    ready, waiting = choose_ready("in/", objects, manifests, taken)
    assert keys(ready) == [one.key for one in objects if one.key not in taken and is_ready(one.key)]
    forgotten = {one.key for one in waiting if one.reason == "no manifest lists it"}
    named = {key for one in manifests for key in one.files}
    assert forgotten == {k for k in etags if k not in taken and k not in named and "/_" in k}


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        *((key, "") for key in ("a.csv", "in/a b/ü ñ&+%.csv", "in//a.csv", "in/...csv", "n" * 251 + ".csv")),
        *((f"in/{one}.csv", "control characters") for one in ("\0", "\x1f", "\n", "\x7f", "\x9b")),
        *(
            (f"in/{one}", "ends with / or has a part . or ..")
            for one in ("", "a.csv/", ".", "..", "../a.csv", "./a.csv")
        ),
        *((f"in/{one}.csv", "not UTF-8") for one in ("\ud800", "\ufffd")),
        ("in/" + "ü" * 126 + ".csv", "more than 255 bytes"),
    ],
)
def test_keys_that_are_no_names_of_files(key: str, fault: str) -> None:
    assert fault in find_key_fault(key) and bool(fault) == bool(find_key_fault(key))


def test_a_file_whose_key_ends_like_a_folder_is_pending() -> None:
    objects = [stored(f"in/{name}", size=size) for name, size in (("", 3), ("a.csv/", 3), ("b.csv/", 0), ("c/", 3))]
    ready, pending = choose_ready("in/", objects, [], ())
    assert (ready, keys(pending)) == ([], ["in/a.csv/"])
