"""Find the quarantined files that name an id: with the parsers of an ingest, in a process of their own.

Anybody can land a file that kills its reader, or that hides an id behind escapes. So ids are compared as values, and a
file that cannot be searched counts as one that names an id.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream.base.errors import InputFileError
from pststream.input.parse_objects import RowFaults, parse_object_ids
from pststream.input.readers import read_chunks, read_requests
from pststream.input.row_chunks import MAX_RAW_CHARACTERS, Reject
from pststream.pipeline.ingest.isolated_reader import isolated_reader
from pststream.pipeline.ingest.stage_file import explain_failures, object_options
from pststream.pipeline.upkeep.row_changes import TextFinder
from pststream.settings import Settings
from pststream.state import quarantine
from pststream.state.home import Home

ID = "subscription_id"


def find_files_that_name(home: Home, settings: Settings, ids: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """Return the entries of files in quarantine that name one of the ids of their kind, or that cannot be searched.

    ids: ids to find, by kind of file (`objects`, `requests`)
    """
    left = [entry for entry in quarantine.read_needed_entries(home) if ids.get(entry["kind"])]
    named = []
    while left:
        with isolated_reader(names_an_id) as reader:
            while left:
                entry = left.pop(0)
                arguments = (entry["kind"], entry["options"], ids[entry["kind"]])
                with _local_copy(home, entry["copy"]) as path:
                    try:
                        if reader.read((*arguments, path), path, settings):
                            named.append(entry)
                    except InputFileError:  # it has killed its reader, or takes too long
                        named.append(entry)
                        break
    return named


@contextmanager
def _local_copy(home: Home, copy: str) -> Iterator[str]:
    local = home.storage.local_path(home.path)
    if local is not None:
        yield str(local / copy)
        return
    with tempfile.TemporaryDirectory(prefix="pststream-erase-") as folder:
        path = Path(folder) / Path(copy).name
        home.files.download(copy, path)
        yield str(path)


def names_an_id(kind: str, options: str, ids: tuple[str, ...], path: str) -> bool:
    """Whether an input file has a row with one of the ids, or cannot be searched; options: as the ledger has them."""
    wanted, finder = pa.array(ids, pa.string()), TextFinder(ids)
    read = _ids_of_objects if kind == "objects" else _ids_of_requests
    try:
        return any(
            bool(pc.any(pc.is_in(values, value_set=wanted)).as_py()) or any(_may_name(one, finder) for one in undecoded)
            for values, undecoded in explain_failures(path, read(path, json.loads(options)))
        )
    except InputFileError:
        return True


def _may_name(undecoded: Reject, finder: TextFinder) -> bool:
    """Whether a row that cannot be decoded names an id, or has a text that is cut."""
    raw = undecoded.raw or ""
    return len(raw) > MAX_RAW_CHARACTERS or bool(finder.search(pa.array([raw])).any())


def _ids_of_objects(path: str, options: dict[str, Any]) -> Iterator[tuple[pa.Array, list[Reject]]]:
    parsing = object_options(options)
    sources = {name: columns for name, columns in parsing.sources.items() if name == "object_id"} or parsing.sources
    for chunk in read_chunks(path, options["format"], sources):
        yield parse_object_ids(chunk, parsing, RowFaults(len(chunk.rows))), chunk.rejected


def _ids_of_requests(path: str, options: dict[str, Any]) -> Iterator[tuple[pa.Array, list[Reject]]]:
    """Yield the ids that are texts or whole numbers; no other value is an id of a stored row."""
    for chunk in read_requests(path, options["format"], [ID], required=[ID], strict=False):
        yield chunk.fields[ID].labels(), chunk.rejected
        odd = chunk.records(np.flatnonzero(~chunk.fields.plain))
        yield pa.array([str(record.get(ID)) for record in odd.records], pa.string()), odd.rejected
