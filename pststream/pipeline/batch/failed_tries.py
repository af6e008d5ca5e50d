"""Count the tries of a batch that end with the process, memory or time, and give the batch a smaller range.

The first try of a batch leaves no trace, so that batches that succeed cost nothing. A further try has a file in the
home while it runs, `trying.json` with the range of the batch, which is deleted at its end, also after an error and at a
stop by a signal, but not after MemoryError, nor when no task has ended for TRY_SECONDS. So a file that is found later
is a try that died; `failing.json` counts them. Requests that a batch had to leave out, as it died with them, are
indexed in halves without a result: `trial.json` notes such a trial while it runs, and `suspects.json` has the range in
which the request that dies is. A batch that cannot get smaller is matched with halves of the subscriptions in the
index, without a result; `partners.json` notes such a trial.
"""

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.engine.contract import TaskDied, TasksStalled
from pststream.input.row_chunks import MAX_RAW_CHARACTERS, REASONS
from pststream.pipeline.index.build_index import find_placing_plan
from pststream.pipeline.index.place_pieces import REQUESTS
from pststream.pipeline.ingest.deduplicate import KEY_OF
from pststream.pipeline.ingest.stage_file import ID_OF
from pststream.state import ledger_tables
from pststream.state.data_files import FileWriter, addresses_and_rows, commit_files, list_data_files
from pststream.state.home import Home
from pststream.state.plans import index_version
from pststream.state.slices import KeyRange, read_slices, whole_file
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction, read_table
from pststream.tables.ledgers import MAX_ROW, Ledger
from pststream.tables.log_events import SET_ASIDE, is_set_aside, withdrawn_requests

TRYING, FAILING, TRIAL, SUSPECTS = "trying.json", "failing.json", "trial.json", "suspects.json"
PARTNERS = "partners.json"

NOBODY = (-1, -1)
"""Partners of a batch that dies without subscriptions, or with several of them alone, or with none."""

TRY_SECONDS = 3_600
"""A try of a batch fails if no task that matches its objects ends for so long; the next try has fewer objects."""

Batch = dict[str, Any]
"""A row of `batches`."""


class Failing(NamedTuple):
    """What is known of tries that died.

    up_to   greatest key of the objects with which a try died: smaller ranges are tried up to there
    range   of the batch whose tries are counted: its number, and where it ends in both logs
    deaths  tries with this range that died
    others  how many had died when other objects could be matched; 0: they were not matched
    partners         keys of insertions in the index, after < key <= up to, with one of which the batch dies; (): not
                     sought yet; NOBODY
    partner_deaths   trials with these that died
    partner_others   how many had died when the batch could be matched with others; 0: it was not
    """

    up_to: int = 0
    range: tuple[int, ...] = ()
    deaths: int = 0
    others: int = 0
    partners: tuple[int, ...] = ()
    partner_deaths: int = 0
    partner_others: int = 0


class Suspects(NamedTuple):
    """Requests of which one makes tries die: no batch takes them, nor later ones, until it is found.

    range       keys of requests, after < key <= up to
    deaths      trials with this range that died
    others      how many had died when other requests could be indexed; 0: they were not
    is_resting  whether the last trial died, so that a batch of objects comes first
    """

    range: tuple[int, int]
    deaths: int = 0
    others: int = 0
    is_resting: bool = False


def read_suspects(home: Home) -> Suspects | None:
    """Return the requests that batches leave out; None if there are none."""
    known = _read(home, SUSPECTS)
    return None if known is None else Suspects(**known | {"range": tuple(known["range"])})


def write_suspects(home: Home, suspects: Suspects | None) -> None:
    """Replace the requests that batches leave out."""
    if suspects is None:
        home.files.delete([SUSPECTS])
    else:
        home.files.write(SUSPECTS, json.dumps(suspects._asdict()).encode())


def count_dead_trial(home: Home) -> None:
    """Narrow the suspects to the requests with which a trial has died; a trial with others leaves them."""
    tried, suspects = _read(home, TRIAL), read_suspects(home)
    if tried is None:
        return
    after, up_to = tried["range"]
    if suspects is None or suspects.range == (after, up_to):
        suspects = suspects or Suspects((after, up_to))
        write_suspects(home, suspects._replace(deaths=suspects.deaths + 1, is_resting=True))
    elif suspects.range[0] <= after and up_to <= suspects.range[1]:
        write_suspects(home, Suspects((after, up_to), 1, 0, True))
    else:
        write_suspects(home, suspects._replace(is_resting=True))
    home.files.delete([TRIAL])


def read_failing(home: Home) -> Failing | None:
    """Return what is known of tries that died; None if nothing is."""
    known = _read(home, FAILING)
    return None if known is None else Failing(**known | {name: tuple(known[name]) for name in ("range", "partners")})


def write_failing(home: Home, failing: Failing) -> None:
    """Replace what is known of tries that died."""
    home.files.write(FAILING, json.dumps(failing._asdict()).encode())


def _read(home: Home, name: str) -> dict[str, Any] | None:
    try:
        known: dict[str, Any] = json.loads(home.files.read(name))
    except (FileNotFoundError, ValueError):  # there is none, or a power cut has damaged it
        return None
    return known


def _range_of(batch: Mapping[str, Any]) -> tuple[int, ...]:
    return (batch["batch_id"], batch["objects_to"], batch["requests_to"])


def count_deaths(home: Home, batch: Mapping[str, Any]) -> Failing:
    """Return what is known of an unfinished batch with this range, after counting a try that has died."""
    tried, failing = _read(home, TRYING), read_failing(home) or Failing()
    if failing.range != _range_of(batch):
        failing = Failing(failing.up_to, _range_of(batch))
    if tried is not None:
        if tuple(tried["range"]) == failing.range:
            failing = failing._replace(deaths=failing.deaths + 1)
            write_failing(home, failing)
        home.files.delete([TRYING])
    return _count_dead_partners(home, failing)


def _count_dead_partners(home: Home, failing: Failing) -> Failing:
    """Narrow the partners of a batch to those of a trial that has died."""
    if (tried := _read(home, PARTNERS)) is None:
        return failing
    trial = after, up_to = tuple(tried["range"])
    if failing.partners == trial != NOBODY:
        failing = failing._replace(partner_deaths=failing.partner_deaths + 1)
    elif failing.partners and failing.partners[0] <= after < up_to <= failing.partners[1]:
        failing = failing._replace(partners=trial, partner_deaths=1, partner_others=0)
    elif failing.partners:
        failing = failing._replace(partners=NOBODY)
    write_failing(home, failing)
    home.files.delete([PARTNERS])
    return failing


@contextmanager
def counted_try(home: Home, batch: Batch, ledger: Ledger) -> Iterator[None]:
    """Count a try of a batch in a block if the process ends in it, or with MemoryError, TasksStalled or TaskDied.

    ledger: if the batch is unfinished there, it was tried before; the first try is counted only if tries have died
    """
    is_noted = ledger.unfinished_batch() is not None or home.files.exists(FAILING)
    with noted_try(home, TRYING, _range_of(batch), is_noted):
        yield


@contextmanager
def noted_try(home: Home, name: str, range: tuple[int, ...], is_noted: bool = True) -> Iterator[None]:
    """Leave a file with the range if the process ends in a block, or with MemoryError, TasksStalled or TaskDied.

    is_noted: False: only after one of these errors.
    """
    content = json.dumps({"range": range}).encode()
    if is_noted:
        home.files.write(name, content)
    try:
        with _deleted_at_a_stop(home, name):
            yield
    except (MemoryError, TasksStalled, TaskDied):
        is_noted = False
        home.files.write(name, content)
        raise
    finally:
        if is_noted:
            home.files.delete([name])


@contextmanager
def _deleted_at_a_stop(home: Home, name: str) -> Iterator[None]:
    """Delete the file of the try before SIGTERM ends the process; a watcher, which handles the signal, raises."""

    def stop(number: int, frame: FrameType | None) -> None:
        home.files.delete([name])
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


def is_committed(home: Home, batch: Mapping[str, Any]) -> bool:
    """Whether a try has committed what depends on the objects of the batch."""
    tables = ((names.MATCHES, "match"), (names.ANSWER_LOG, "answers"))
    return any(last_transaction(home.table(table), name) >= batch["batch_id"] for table, name in tables)


def _is_indexed(home: Home, batch: Mapping[str, Any]) -> bool:
    """Whether a try may have committed what depends on the requests of the batch."""
    version = batch["plan_version"]
    commits = [(names.WORKER_INDEX, f"index-{index_version(home, version)}")]
    if (placing := find_placing_plan(home, version, REQUESTS)) is not None:
        commits.append((names.PLACEMENT_AREAS, f"{REQUESTS}-{placing.placement_version}"))
    return any(last_transaction(home.table(table), name) >= batch["batch_id"] for table, name in commits)


def smaller_range(home: Home, ledger: Ledger, batch: Batch) -> Batch | None:
    """Return an unfinished batch with a smaller range: without its requests, else without its objects or with half of
    them; None if it has one row of objects alone, or no objects and requests that are in the index.
    """
    rows = ledger.object_rows(batch["objects_after"], batch["objects_to"])
    if batch["requests_to"] > batch["requests_after"]:
        if not _is_indexed(home, batch):
            return batch | {"requests_to": batch["requests_after"]}
        return batch | {"objects_to": batch["objects_after"]} if rows else None
    return batch | {"objects_to": ledger.object_key_after(batch["objects_after"], rows // 2)} if rows > 1 else None


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
    if batch is None or is_committed(home, batch):
        return ledger
    empty = dict(batch) | {"objects_to": batch["objects_after"]}
    if not _is_indexed(home, batch):
        empty["requests_to"] = batch["requests_after"]
    return ledger if empty == batch else begin_smaller(home, empty)


def find_only_object(home: Home, batch: Batch) -> int | None:
    """Return the key of the object of a batch with one row of objects; None if the row is no object."""
    objects = KeyRange("object_key", batch["objects_after"], batch["objects_to"])
    keys = [one.as_py() for rows in _read_log(home, names.OBJECTS, objects) for one in rows.column("object_key")]
    return keys[0] if len(keys) == 1 else None


def insertion_keys(home: Home, after: int, up_to: int) -> np.ndarray:
    """Return the keys of the insertions in a range that were not set aside, ascending: int64[n]."""
    parts, withdrawn = [np.empty(0, np.int64)], withdrawn_requests(home)
    for rows in _read_log(home, names.REQUESTS, KeyRange("request_key", after, up_to), "op"):
        keys = rows.filter(pc.equal(rows.column("op"), "insert")).column("request_key").to_numpy()
        parts.append(keys[~withdrawn.contain(keys)])
    return np.sort(np.concatenate(parts))


def _read_log(home: Home, name: str, keys: KeyRange, *columns: str) -> Iterator[pa.RecordBatch]:
    files = keys.files(list_data_files(home, name))
    slices = [whole_file(path) for path, _ in addresses_and_rows(home, name, files)]
    return read_slices(slices, [keys.column, *columns], keys)


def write_rejects_of_set_aside(home: Home) -> None:
    """Write the rejects of rows that were set aside and have none yet: the process may have ended in between."""
    last = last_transaction(home.table(names.REJECTS), SET_ASIDE)
    wanted = is_set_aside() & (pds.field("withdrawal_id") > last)
    wanted &= pds.field("status") == "done"
    files = read_table(home.table(names.FILES), ["kind", "withdrawal_id", "ingest_id", "options"], wanted)
    for one in files.sort_by("withdrawal_id").to_pylist():
        kind, key = one["kind"], json.loads(one["options"])[SET_ASIDE]
        file = read_table(home.table(names.FILES), ["path"], pds.field("file_seq") == key >> names.ROW_BITS)
        read = _read_log(home, kind, KeyRange(KEY_OF[kind], key - 1, key), ID_OF[kind])
        raw = [name.as_py()[:MAX_RAW_CHARACTERS] for rows in read for name in rows.column(ID_OF[kind])]
        reject = {
            "kind": kind, "file": file.column(0)[0].as_py(), "row": key & MAX_ROW, "field": ID_OF[kind],
            "reason": SET_ASIDE, "detail": REASONS[SET_ASIDE], "raw": raw[0] if raw else None,
            "ingest_id": one["ingest_id"],
        }  # fmt: skip
        schema = TABLES[names.REJECTS].schema
        writer = FileWriter(home.table(names.REJECTS), schema)
        writer.write(pa.RecordBatch.from_pylist([reject], schema))
        if (written := writer.close()) is not None:
            number = one["withdrawal_id"]
            commit_files(home, names.REJECTS, [written], application=SET_ASIDE, transaction=number)
