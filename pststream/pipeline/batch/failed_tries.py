"""Count the tries of a batch that end with the process or for lack of memory, and give the batch a smaller range.

The first try of a batch leaves no trace, so that batches that succeed cost nothing. A further try has a file in the
home while it runs, `trying.json`, which says the range of the batch. It is deleted at the end of the try, also after an
error and at a stop by a signal; after MemoryError it stays. So a file that the next command finds is a try that died.
`failing.json` counts them, and says up to which object one is to be sought that makes its batch die.
"""

import json
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import Any

import numpy as np

from pststream.base import names
from pststream.base.errors import PstError
from pststream.pipeline.index.build_index import find_placing_plan
from pststream.pipeline.index.place_pieces import REQUESTS
from pststream.state import ledger_tables
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.home import Home
from pststream.state.plans import index_version
from pststream.state.slices import KeyRange, Slice, read_slices
from pststream.tables.delta_tables import last_transaction
from pststream.tables.ledgers import Ledger
from pststream.tables.log_events import WithdrawnObjects

TRYING, FAILING = "trying.json", "failing.json"

ALONE_TRIES = 2
"""After so many dead tries with one object this is set aside. One may be a kill of the process by somebody."""

Batch = dict[str, Any]
"""A row of `batches`."""


@dataclass(frozen=True)
class Failing:
    """What is known of tries that died.

    up_to   greatest key of the objects with which a try died: smaller ranges are tried up to there
    range   of the batch whose tries were counted: its number and where it ends in both logs
    deaths  tries with this range that died
    others  tries to match other objects instead that died
    """

    up_to: int = 0
    range: tuple[int, ...] = ()
    deaths: int = 0
    others: int = 0


def read_failing(home: Home) -> Failing | None:
    """Return what is known of tries that died; None if nothing is."""
    known = _read(home, FAILING)
    return None if known is None else Failing(**known | {"range": tuple(known["range"])})


def write_failing(home: Home, failing: Failing) -> None:
    """Replace what is known of tries that died."""
    home.files.write(FAILING, json.dumps(asdict(failing)).encode())


def _read(home: Home, name: str) -> dict[str, Any] | None:
    try:
        known: dict[str, Any] = json.loads(home.files.read(name))
    except (FileNotFoundError, ValueError):  # there is none, or a power cut has damaged it
        return None
    return known


def _range_of(batch: Mapping[str, Any]) -> tuple[int, ...]:
    return (batch["batch_id"], batch["objects_to"], batch["requests_to"])


def count_deaths(home: Home, batch: Mapping[str, Any]) -> Failing | None:
    """Return what is known of an unfinished batch with this range, after counting a try that has died; None if no try
    is known to have died.
    """
    tried, failing = _read(home, TRYING), read_failing(home)
    if failing is not None and failing.range != _range_of(batch):
        failing = replace(failing, range=_range_of(batch), deaths=0, others=0)
    if tried is not None:
        if tuple(tried["range"]) == _range_of(batch):
            known = failing or Failing(range=_range_of(batch))
            count = "others" if tried["others"] else "deaths"
            failing = replace(known, **{count: getattr(known, count) + 1})
            write_failing(home, failing)
        home.files.delete([TRYING])
    return failing


@contextmanager
def counted_try(home: Home, batch: Batch, *, again: bool, others: bool = False) -> Iterator[None]:
    """Count a try of a batch in a block if the block dies: if the process ends, or with MemoryError.

    again: whether the batch was tried before; the first try is counted only if tries have died lately
    others: whether other objects are matched instead
    """
    content = json.dumps({"range": _range_of(batch), "others": others}).encode()
    counted = again or home.files.exists(FAILING)
    if counted:
        home.files.write(TRYING, content)
    try:
        with _deleted_at_a_stop(home):
            yield
    except MemoryError:
        if not counted:
            with suppress(OSError, PstError):
                home.files.write(TRYING, content)
        raise
    except BaseException:
        if counted:
            home.files.delete([TRYING])
        raise
    if counted:
        home.files.delete([TRYING])
        failing = read_failing(home)
        if failing is not None and not others and batch["objects_to"] >= failing.up_to:
            home.files.delete([FAILING])


@contextmanager
def _deleted_at_a_stop(home: Home) -> Iterator[None]:
    """Delete the file of the try before SIGTERM ends the process; a watcher, which handles the signal, raises."""

    def stop(number: int, frame: FrameType | None) -> None:
        home.files.delete([TRYING])
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def is_committed(home: Home, batch: Batch) -> bool:
    """Whether a try has committed what depends on the objects of the batch."""
    tables = ((names.MATCHES, "match"), (names.ANSWER_LOG, "answers"))
    return any(last_transaction(home.table(table), name) >= batch["batch_id"] for table, name in tables)


def _is_indexed(home: Home, batch: Batch) -> bool:
    """Whether a try may have committed what depends on the requests of the batch."""
    version = batch["plan_version"]
    commits = [(names.WORKER_INDEX, f"index-{index_version(home, version)}")]
    if (placing := find_placing_plan(home, version, REQUESTS)) is not None:
        commits.append((names.PLACEMENT_AREAS, f"{REQUESTS}-{placing.placement_version}"))
    return any(last_transaction(home.table(table), name) >= batch["batch_id"] for table, name in commits)


def smaller_range(home: Home, ledger: Ledger, batch: Batch) -> Batch | None:
    """Return an unfinished batch with a smaller range: without its requests, else without its objects or with half of
    them; None if it has no requests and at most one row of objects.
    """
    rows = ledger.object_rows(batch["objects_after"], batch["objects_to"])
    if not rows:
        return None
    if batch["requests_to"] > batch["requests_after"]:
        if _is_indexed(home, batch):
            return batch | {"objects_to": batch["objects_after"]}
        return batch | {"requests_to": batch["requests_after"]}
    if rows == 1:
        return None
    return batch | {"objects_to": ledger.object_key_after(batch["objects_after"], rows // 2)}


OTHERS = 1_000
"""Objects that are matched, and not committed, before one is set aside, at most."""


def find_only_object(home: Home, batch: Batch) -> int | None:
    """Return the key of the object of a batch that has no requests and one row of objects; None for other batches, and
    if the row is no object.
    """
    objects = KeyRange("object_key", batch["objects_after"], batch["objects_to"])
    if batch["requests_to"] > batch["requests_after"] or objects.up_to <= objects.after:
        return None
    keys = _keys_of(home, objects.files(list_data_files(home, names.OBJECTS)), objects)
    return int(keys[0]) if len(keys) == 1 else None


def find_other_objects(home: Home, key: int, withdrawn: WithdrawnObjects) -> KeyRange | None:
    """Return a range with up to OTHERS objects, not withdrawn, before an object; without any, after it; or None."""
    files = sorted(list_data_files(home, names.OBJECTS), key=lambda file: file.low.get("object_key", 0))
    before = [file for file in reversed(files) if file.low.get("object_key", 0) < key]
    after = [file for file in files if file.high.get("object_key", names.MAX_INT64) > key]
    for candidates, is_wanted in ((before, np.less), (after, np.greater)):
        for file in candidates:
            keys = _keys_of(home, [file])
            keys = keys[is_wanted(keys, key) & ~withdrawn.contain(keys)]
            if len(keys):
                chosen = keys[-OTHERS:] if is_wanted is np.less else keys[:OTHERS]
                return KeyRange("object_key", int(chosen[0]) - 1, int(chosen[-1]))
    return None


def _keys_of(home: Home, files: Iterable[DataFile], keys: KeyRange | None = None) -> np.ndarray:
    """Return the keys of the objects in data files, ascending: int64[n]."""
    slices = [Slice(path, 0, rows) for path, rows in addresses_and_rows(home, names.OBJECTS, files)]
    read = (rows.column(0).to_numpy() for rows in read_slices(slices, ["object_key"], keys))
    return np.sort(np.concatenate([np.empty(0, np.int64), *read]))


def begin_smaller(home: Home, batch: Batch) -> Ledger:
    """Write the batch with a smaller range to the ledger, which replaces the one before; return the ledger."""
    ledger_tables.append(home, names.BATCHES, [batch])
    return Ledger(home)


def give_way(home: Home) -> Ledger:
    """Make an unfinished batch empty, unless a try has committed what depends on its range; return the ledger.

    So a command that needs the batch to be finished does not have to match its objects; the next batch has them.
    """
    ledger = Ledger(home)
    batch = ledger.unfinished_batch()
    if batch is None or is_committed(home, dict(batch)):
        return ledger
    empty = dict(batch) | {"objects_to": batch["objects_after"]}
    if not _is_indexed(home, dict(batch)):
        empty["requests_to"] = batch["requests_after"]
    return ledger if empty == batch else begin_smaller(home, empty)
