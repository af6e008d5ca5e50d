"""Write homes table by table as ingest and match would leave them, without Spark and without the matching kernels."""

import datetime as dt
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pststream.base import names
from pststream.plans.plan import DispatchGrid, PartitionPlan, space_plan
from pststream.queries.shapes.registry import read_region, to_columns
from pststream.queries.text.expression import parse_keywords
from pststream.queries.text.tokenizer import term_id
from pststream.queries.text.words import tokenize
from pststream.state import ledger_tables
from pststream.state.data_files import FileWriter, commit_files
from pststream.state.home import Home
from pststream.state.plans import Retiring, save_plan, save_units, save_vocabulary
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import last_transaction
from pststream.tables.ledgers import Ledger, log_key

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
WORLD = (-180.0, -90.0, 180.0, 90.0)


def add_sinks(home: Home, *sinks: str) -> None:
    """Name sinks in the settings of a home."""
    lines = "".join(f'[sinks.{name}]\nkind = "file"\ntarget = "{name}"\n' for name in sinks)
    Path(home.path, "pststream.toml").write_text(lines, "utf-8")


def at(minutes: float) -> dt.datetime:
    """A time of the tests: minutes after START."""
    return START + dt.timedelta(minutes=minutes)


def copy_of(empty: Path, path: Path) -> Home:
    """A new empty home, copied: faster than making its tables."""
    shutil.copytree(empty, path)
    return Home(path)


def thing(row: int, object_id: str, minutes: float = 0, **changes: Any) -> dict[str, Any]:
    """An accepted object at row `row` of its file."""
    fields = {"row": row, "object_id": object_id, "ts": at(minutes), "lon": 0.0, "lat": 0.0, "text": "free coffee"}
    return fields | changes


def insertion(row: int, subscription_id: str, minutes: float = -60, **changes: Any) -> dict[str, Any]:
    """An accepted insertion at row `row` of its file."""
    fields = {
        "row": row, "op": "insert", "kind": "range", "owner": "", "subscription_id": subscription_id,
        "effective_at": at(minutes), "expires_at": None, "keywords": "coffee AND (free OR cheap)",
        "bbox": [-1.0, -1.0, 1.0, 1.0], "circle": None, "payload": None,
    }  # fmt: skip
    return fields | changes


def deletion(row: int, subscription_id: str, minutes: float, subscription_key: int) -> dict[str, Any]:
    """An accepted deletion at row `row` of its file."""
    return {
        "row": row, "op": "delete", "owner": "", "subscription_id": subscription_id,
        "effective_at": at(minutes), "subscription_key": subscription_key,
    }  # fmt: skip


def reject(row: int, reason: str, field: str = "", raw: str | None = None) -> dict[str, Any]:
    """A rejected row."""
    return {"row": row, "field": field, "reason": reason, "detail": f"because {reason}", "raw": raw}


def add_file(
    home: Home, kind: str, rows: Sequence[dict[str, Any]], rejects: Sequence[dict[str, Any]] = (), done: bool = True
) -> int:
    """Ingests a file; its place in the log."""
    ledger = Ledger(home)
    seq, ingest_id = ledger.next_file_seq, ledger.next_ingest_id
    path = f"/landing/{kind}-{seq}.jsonl"
    started = {
        "file_seq": seq, "ingest_id": ingest_id, "kind": kind, "path": path, "sha256": f"{seq:064}", "bytes": 1,
        "options": '{"lateness_seconds": 0}', "status": "started", "started_at": at(0),
    }  # fmt: skip
    ledger_tables.append(home, names.FILES, [started])
    write = _write_objects if kind == "objects" else _write_requests
    write(home, seq, ingest_id, rows)
    ledger_tables.append(
        home, names.REJECTS, [{**row, "kind": kind, "file": path, "ingest_id": ingest_id} for row in rejects]
    )
    if done:
        moments = [row["ts"] if kind == "objects" else row["effective_at"] for row in rows]
        finished = {
            "status": "done", "rows": max((row["row"] for row in [*rows, *rejects]), default=0), "accepted": len(rows),
            "rejected": len(rejects), "watermark": None, "min_ts": min(moments, default=None),
            "max_ts": max(moments, default=None),
        }  # fmt: skip
        ledger_tables.append(home, names.FILES, [started | finished])
    return seq


def _write_objects(home: Home, seq: int, ingest_id: int, rows: Iterable[dict[str, Any]]) -> None:
    objects = [
        {
            "terms": sorted({term_id(word) for word in tokenize(row["text"])}),
            **row, "object_key": log_key(seq, row["row"]), "ingest_id": ingest_id,
        }
        for row in rows
    ]  # fmt: skip
    ledger_tables.append(home, names.OBJECTS, objects)


def _write_requests(home: Home, seq: int, ingest_id: int, rows: Iterable[dict[str, Any]]) -> None:
    requests = []
    for row in rows:
        base = {
            "request_key": log_key(seq, row["row"]),
            "subscription_key": log_key(seq, row["row"]),
            "ingest_id": ingest_id,
        }
        if row["op"] == "insert":
            base |= to_columns(read_region(row))
            base["clauses"] = [
                sorted({term_id(w) for w in clause}) for clause in parse_keywords(row["keywords"]).required
            ]
        taken = {"room": 1, "postings": 1} if row["op"] == "insert" else {"room": 0, "postings": 0}
        requests.append({"owner": "", **taken, **row, "circle": None, **base} | _own_key(row))
    ledger_tables.append(home, names.REQUESTS, requests)


def _own_key(row: dict[str, Any]) -> dict[str, Any]:
    return {"subscription_key": row["subscription_key"]} if "subscription_key" in row else {}


def match_row(object_key: int, object_id: str, minutes: float, keys: list[int], **changes: Any) -> dict[str, Any]:
    """A row of `matches`, without batch and plan."""
    fields = {
        "object_key": object_key, "object_id": object_id, "ts": at(minutes), "subscription_keys": keys,
        "retracted": False, "worker": 0,
    }  # fmt: skip
    return fields | changes


def add_batch(
    home: Home,
    matches: Sequence[dict[str, Any]] = (),
    *,
    objects_to: int | None = None,
    plan_version: int = 1,
    cpu_seconds: Sequence[float] = (),
    done: bool = True,
    minutes: float = 100,
    **changes: Any,
) -> int:
    """Runs a batch, begun after so many minutes, over all that is pending, or objects up to a key; its number.

    changes: columns of its row when it is done
    """
    ledger = Ledger(home)
    pending, batch_id = ledger.pending(10**9), ledger.next_batch_id
    started = {
        "batch_id": batch_id, "status": "started", "plan_version": plan_version,
        "objects_after": pending.objects_after,
        "objects_to": pending.objects_to if objects_to is None else objects_to,
        "requests_after": pending.requests_after, "requests_to": pending.requests_to, "objects_version": 0,
        "requests_version": 0, "removals": 0, "started_at": at(minutes),
    }  # fmt: skip
    ledger_tables.append(home, names.BATCHES, [started])
    same = {"batch_id": batch_id, "plan_version": plan_version}
    ledger_tables.append(home, names.MATCHES, [{**row, **same} for row in matches])
    loads = [
        {
            **same, "worker": worker, "unit": names.WHOLE_WORKER, "objects": 10, "subscriptions": 5, "candidates": 7,
            "matches": 1, "cpu_seconds": seconds,
        }
        for worker, seconds in enumerate(cpu_seconds)
    ]  # fmt: skip
    ledger_tables.append(home, names.UNIT_LOADS, loads)
    if done:
        count = {
            taken: sum(len(r["subscription_keys"]) for r in matches if r["retracted"] is taken)
            for taken in (False, True)
        }
        finished = {
            "status": "done", "objects": 3, "discarded": 1, "requests": 2, "matches": count[False],
            "retractions": count[True], "seconds_by_step": [("match", 1.5), ("index", 0.5)], "finished_at": at(101),
        }  # fmt: skip
        ledger_tables.append(home, names.BATCHES, [started | finished | changes])
    return batch_id


def log_row(batch_id: int, **changes: Any) -> dict[str, Any]:
    """A row of `answer_log`, without its part."""
    fields = {"batch_id": batch_id, "bucket": 0, "event": "entered", "subscription_key": log_key(1, 1)}
    return fields | changes


def snapshot_row(batch_id: int, **changes: Any) -> dict[str, Any]:
    """A row of `answers`."""
    return {"batch_id": batch_id, "bucket": 0, "subscription_key": log_key(1, 1), "threshold": 1.0} | changes


def add_answer_rows(home: Home, name: str, rows: Sequence[dict[str, Any]], **partition: str) -> None:
    """Commits a data file of `answer_log` or `answers`; columns that are not given are null."""
    writer = FileWriter(home.table(name), TABLES[name].schema, partition)
    (batch,) = pa.Table.from_pylist(list(rows), writer.schema).combine_chunks().to_batches()
    writer.write(batch)
    file = writer.close()
    assert file is not None
    last = max(last_transaction(home.table(name), "tests"), 0)
    commit_files(home, name, [file], application="tests", transaction=last + 1)


def halves(workers: int = 2) -> PartitionPlan:
    """A plan of vertical stripes, one a worker."""
    grid = DispatchGrid(*WORLD, columns=64, rows=32)
    leaf = np.tile(np.arange(64) * workers // 64, 32)
    return space_plan("stripes", grid, leaf, np.arange(workers), workers, {"made": "by hand"})


def add_plan(
    home: Home,
    plan: PartitionPlan,
    version: int = 1,
    frequencies: dict[str, int] | None = None,
    retiring: Retiring | None = None,
    options: dict[str, str] | None = None,
    **changes: Any,
) -> None:
    """Saves a plan; `frequencies`: sampled objects that have a word; `retiring`: the plan that it retires; `options`:
    entries of its column of this name; changes: columns of its row.
    """
    ones = np.ones(plan.units)
    save_units(home, version, plan, {"load": np.arange(plan.units), "objects": ones, "subscriptions": ones})
    words = frequencies or {"coffee": 5, "free": 1, "cheap": 1}
    counts = {"objects": list(words.values()), "subscriptions": [1] * len(words)}
    ids = [term_id(word) for word in words]
    save_vocabulary(home, version, pa.table({"term_id": ids, "term": list(words), **counts}))
    figures = {
        "load_total": 3.0, "load_max": 2.0, "load_min": 1.0, "imbalance": 2.0, "seconds": 0.5,
        "worker_loads": [1.0] * plan.workers, "options": {"cost_check": 1.0, **(options or {})},
    }  # fmt: skip
    save_plan(home, version, plan, figures | changes, None if retiring is None else 1, retiring)
