"""Choose how the routing tasks of a batch find the stored objects that its late subscriptions may match.

The tasks ask object segments. They read data files instead, as for new objects, if these files will soon be built into
one segment with newer files, or if the late subscriptions or the segments are too large for the node.
"""

from collections.abc import Collection, Iterator
from typing import Any

from pststream.base import names
from pststream.base.utc_times import to_micros
from pststream.pipeline.batch.late_questions import LateRequests
from pststream.pipeline.batch.route_task import STORED_OBJECTS, ObjectScan
from pststream.pipeline.index.build_index import TASK_BYTES
from pststream.search.object_cache import ObjectFile, settled_groups
from pststream.state.data_files import addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.slices import KeyRange, split_into_tasks, whole_file
from pststream.tables.log_end import Ledger
from pststream.tables.withdrawals import WithdrawnObjects

OBJECT_BYTES = 150
"""About the bytes of an object in a segment."""

CACHE_SHARE = 0.5
"""Share of the node's cache that the asked segments take at most, so that they stay there."""


def stored_scans(
    home: Home, batch: dict[str, Any], ledger: Ledger, withdrawn: WithdrawnObjects, cache_bytes: int
) -> list[ObjectScan]:
    """Return scans of the stored objects that the late subscriptions of a batch may match.

    ledger: as it was before the batch; cache_bytes: bound of the node's cache
    """
    first = ledger.min_request_time(batch["requests_after"], batch["requests_to"])
    last = ledger.max_matched_ts(batch["objects_after"])
    if first is None or last is None or first > last:
        return []
    since, stored = to_micros(first), KeyRange("object_key", -1, batch["objects_after"])
    files = list_data_files(home, names.OBJECTS)
    rows = dict(addresses_and_rows(home, names.OBJECTS, files))
    wanted = [file for file in stored.files(files) if file.may_contain("ts", since, names.NEVER_US)]
    read = dict(addresses_and_rows(home, names.OBJECTS, wanted))
    scans = []
    late = _late_requests(home, batch, ledger, to_micros(last))
    if late is not None:
        places = zip(files, rows.items())
        stored_files = [ObjectFile(*place, file.low.get("object_key", -1), file.bytes) for file, place in places]
        for group in _asked_groups(stored_files, read.keys(), cache_bytes):
            whole = tuple(whole_file(file.address) for file in group)
            scans.append(ObjectScan(whole, stored, STORED_OBJECTS, since, withdrawn, late))
            for file in group:
                read.pop(file.address, None)
    scans += [ObjectScan(slices, stored, STORED_OBJECTS, since, withdrawn) for slices in split_into_tasks(read.items())]
    return scans


def _late_requests(home: Home, batch: dict[str, Any], ledger: Ledger, created_to: int) -> LateRequests | None:
    """Return the late subscriptions of a batch; None if they are too many for the memory of a task."""
    keys = KeyRange("request_key", batch["requests_after"], batch["requests_to"])
    files = keys.files(list_data_files(home, names.REQUESTS))
    requests, rows = ledger.accepted_requests(keys.after, keys.up_to), sum(file.rows for file in files)
    if sum(file.bytes for file in files) * requests > TASK_BYTES * rows:
        return None
    slices = (whole_file(path) for path, _ in addresses_and_rows(home, names.REQUESTS, files))
    return LateRequests(tuple(slices), keys, created_to)


def _asked_groups(
    files: list[ObjectFile], wanted: Collection[str], cache_bytes: int
) -> Iterator[tuple[ObjectFile, ...]]:
    """Yield the groups of files, a segment each, that are asked: the newest, as many as the cache keeps."""
    left = CACHE_SHARE * cache_bytes
    for group in reversed(settled_groups(files)):
        if any(file.address in wanted for file in group):
            left -= OBJECT_BYTES * sum(file.rows for file in group)
            if left < 0:
                return
            yield group
