"""Run commands in processes that die of certain rows, as of a bug in native code."""

import datetime as dt
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.pipeline.batch import match_task, route_task
from pststream.pipeline.index import build_index
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from tests import worlds
from tests.command_process import SERVER, run_command
from tests.commands import Home as TestHome

KILLING_AT = (worlds.START + 9.001 * worlds.STEP).isoformat()
"""`created_at` of the insertions that kill whoever makes pieces of them."""


def _run_with_killer(kind: str, words: list[str], environment: dict[str, str], err: str) -> None:
    """Run a command that dies when an object with this id is routed, or, of "any", any object; of "request", when an
    index piece is made of an insertion with KILLING_AT, or, of "any request", of any; of "served", when a worker with
    pieces of such an insertion gets objects, of "matched", when an object matches it, and of "paired killer", when the
    object "killer" matches any.
    """
    find_workers, pieces_of_kind = route_task._find_workers, build_index._pieces_of_kind
    find_pairs = match_task.WorkerSearch.find_pairs
    killing = dt.datetime.fromisoformat(KILLING_AT)
    rows = read_table(Home(words[-1]).table("requests"), ["request_key", "effective_at"]).to_pylist()
    killers = [row["request_key"] for row in rows if row["effective_at"] == killing]

    def die_of_subscription(search: match_task.WorkerSearch, *arguments: Any) -> Any:
        found = find_pairs(search, *arguments)
        stored = [segment.subscription_keys for served in search.served for _, segment in served.segments]
        for keys in (one[np.isin(np.where(one < 0, ~one, one), killers)] for one in stored):
            if kind == "paired killer" and len(found.keys) and "killer" in _ids(arguments[0]):
                os.kill(os.getpid(), signal.SIGKILL)
            if len(keys) and (kind == "served" or (kind == "matched" and np.isin(found.keys, keys).any())):
                os.kill(os.getpid(), signal.SIGKILL)
        return found

    match_task.WorkerSearch.find_pairs = die_of_subscription

    def die_of_request(of_kind: Any, inserted: pa.RecordBatch) -> Any:
        starts = inserted.column("effective_at").to_pylist()
        if (kind == "request" and killing in starts) or (kind == "any request" and starts):
            os.kill(os.getpid(), signal.SIGKILL)
        return pieces_of_kind(of_kind, inserted)

    build_index._pieces_of_kind = die_of_request

    def die(objects: pa.RecordBatch, *others: Any) -> Any:
        ids = _ids(objects)
        if kind in ids or (kind == "any" and ids):
            os.kill(os.getpid(), signal.SIGKILL)
        return find_workers(objects, *others)

    route_task._find_workers = die
    run_command(words, environment, os.devnull, err, str(Path.cwd()))


def _ids(objects: pa.RecordBatch) -> list[str]:
    return list(objects.column("object_id").to_pylist())


def run_beside(kind: str, home: TestHome, *words: str | Path) -> int | None:
    """Return the exit code of a command in a process that an object, or a request, kills; `{home}-err` has its log."""
    arguments = [*map(str, words), "--home", str(home.path)]
    process = SERVER.Process(
        target=_run_with_killer, args=(kind, arguments, dict(os.environ), f"{home.path}-err"), daemon=True
    )
    process.start()
    process.join(500)
    return process.exitcode
