"""How a home stands: what waits, what lives, how even the load is, what was left unfinished."""

import datetime as dt
import shlex
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream import names
from pststream.escape_text import escape_controls
from pststream.ledgers.history import LedgerHistory
from pststream.ledgers.rules import log_key, step_seconds
from pststream.reports.commands.text_tables import text_table
from pststream.reports.reading.delivery_progress import deliveries, lines_of_deliveries
from pststream.reports.reading.table_reader import AnyHome, Reader
from pststream.reports.reading.waiting import held_files, objects_lag, requests_lag, waiting_seconds
from pststream.reports.reading.watcher_status import lines_of_watcher, watcher
from pststream.utc_times import iso

TABLES = (
    names.OBJECTS, names.REQUESTS, names.REJECTS, names.FILES, names.VOCABULARY, names.PLANS, names.PLAN_UNITS,
    names.WORKER_INDEX, names.UNIT_LOADS, names.MIGRATIONS, names.MATCHES, names.BATCHES,
    names.QUARANTINE, names.QUALITY_RESULTS,
    names.DELIVERIES, names.DEAD_LETTERS,
)  # fmt: skip
SHOWN_BATCHES = 5
MEASURED_BATCHES = 10
_TIME = pa.timestamp("us", tz="UTC")


def status(home: AnyHome, now: dt.datetime | None = None) -> dict[str, Any]:
    """Figures of a home as it stands: see the keys. Times are ISO 8601 texts in UTC; `now` is for tests.

    What lags is what no batch that is done has taken: also what an unfinished batch is about to take.
    """
    now = now or dt.datetime.now(dt.UTC)
    reader = Reader(home)
    ledgers = LedgerHistory(reader)
    settled, moment = _settled(ledgers), pa.scalar(now, _TIME)
    plan = _plan(reader, settled, moment)
    objects = ledgers.files_of("objects")
    return {
        "home": home.path,
        "at": iso(now),
        "watermark": iso(pc.max(objects.column("max_ts")).as_py()),
        "lag": {
            "objects": objects_lag(reader, ledgers),
            "requests": requests_lag(ledgers),
            "seconds": waiting_seconds(ledgers, now),
        },
        "totals": _totals(ledgers),
        "last_hour": _rows_since(ledgers, now - dt.timedelta(hours=1)),
        "subscriptions": _subscriptions(reader, settled, moment),
        "plan": plan,
        "balance": _balance(reader, ledgers),
        "batches": _last_batches(ledgers),
        "deliveries": deliveries(reader, ledgers),
        "watcher": watcher(home, now),
        "unfinished": _unfinished(home, ledgers),
        "quarantined": len(held_files(reader, ledgers)),
        "index": _index(reader, plan),
        "versions": {name: reader.table(name).version() for name in TABLES},
    }


def _settled(ledgers: LedgerHistory) -> pds.Expression:
    """Filter of the requests of ingests that are done."""
    last = pc.max(ledgers.files_of("requests").column("file_seq")).as_py() or 0
    return pds.field("request_key") < log_key(last + 1, 0)


def _subscriptions(reader: Reader, settled: pds.Expression, now: pa.Scalar) -> dict[str, int]:
    """Insertions of ingests that are done, and how many of them live."""
    inserted = settled & (pds.field("op") == "insert")
    return {
        "live": _live(reader, settled, now),
        "inserted": int(reader.dataset(names.REQUESTS).count_rows(filter=inserted)),
    }


def _live(reader: Reader, settled: pds.Expression, now: pa.Scalar) -> int:
    """Subscriptions with `at` <= now < end. Holds the keys of those that were deleted: 8 bytes each."""
    begun, expires = settled & (pds.field("at") <= now), pds.field("expires_at")
    columns = ["subscription_key"]
    deletions = reader.batches(names.REQUESTS, columns, begun & (pds.field("op") == "delete"))
    parts = [batch.column(0).to_numpy() for batch in deletions]
    deleted = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    lasting = begun & (pds.field("op") == "insert") & (expires.is_null() | (expires > now))
    if not len(deleted):
        return int(reader.dataset(names.REQUESTS).count_rows(filter=lasting))
    live = 0
    for batch in reader.batches(names.REQUESTS, columns, lasting):
        keys = batch.column(0).to_numpy()
        places = np.minimum(np.searchsorted(deleted, keys), len(deleted) - 1)
        live += int((deleted[places] != keys).sum())
    return live


def _rows_since(ledgers: LedgerHistory, since: dt.datetime) -> dict[str, int]:
    """Rows of the files that were taken in since then."""
    recent = ledgers.files.filter(pc.greater_equal(ledgers.files.column("at"), pa.scalar(since, _TIME)))
    return {name: _sum(recent, name) for name in ("accepted", "rejected")}


def _totals(ledgers: LedgerHistory) -> dict[str, Any]:
    kinds = {kind: ledgers.files_of(kind) for kind in ("objects", "requests")}
    done = ledgers.batches
    return {
        **{kind: _sum(files, "accepted") for kind, files in kinds.items()},
        "rejected": {kind: _sum(files, "rejected") for kind, files in kinds.items()},
        "files": {kind: files.num_rows for kind, files in kinds.items()},
        "batches": done.num_rows,
        "matches": _sum(done, "matches"),
        "retractions": _sum(done, "retractions"),
    }


def _sum(rows: pa.Table, column: str) -> int:
    return int(pc.sum(rows.column(column)).as_py() or 0)


def _plan(reader: Reader, settled: pds.Expression, now: pa.Scalar) -> dict[str, Any] | None:
    """The current plan, and of the one that it retires the live subscriptions left; None if there is none."""
    columns = (
        "plan_version", "index_version", "retiring_version", "retiring_to", "planner", "workers", "units", "load_total",
        "load_max", "imbalance", "created_at",
    )  # fmt: skip
    rows = reader.read(names.PLANS, columns).sort_by("plan_version").to_pylist()
    if not rows:
        return None
    current = rows[-1]
    version, last = current.pop("retiring_version"), current.pop("retiring_to")
    retiring = None
    if version is not None:
        left = _live(reader, settled & (pds.field("subscription_key") <= last), now)
        planner = next(row["planner"] for row in rows if row["plan_version"] == version)
        retiring = {"version": version, "planner": planner, "subscriptions_to": last, "live": left}
    current["created_at"] = iso(current["created_at"])
    return {"version": current.pop("plan_version"), **current, "retiring": retiring}


def _balance(reader: Reader, ledgers: LedgerHistory) -> dict[str, Any] | None:
    """CPU seconds of each worker, measured over the last batches of the plan that the last one ran under."""
    last = ledgers.batches.slice(max(0, ledgers.batches.num_rows - MEASURED_BATCHES))
    if not last.num_rows:
        return None
    version = last.column("plan_version")[-1].as_py()
    mine = last.filter(pc.equal(last.column("plan_version"), version)).column("batch_id").to_pylist()
    measured = (pds.field("unit") == -1) & (pds.field("worker") >= 0) & pds.field("batch_id").isin(mine)
    loads = reader.read(names.UNIT_LOADS, ("worker", "cpu_seconds", "objects", "candidates"), measured)
    plans = reader.read(names.PLANS, ["workers"], pds.field("plan_version") == version)
    workers = int(plans.column(0)[0].as_py()) if plans.num_rows else 0
    worker = loads.column("worker").to_numpy()
    seconds = np.bincount(worker, loads.column("cpu_seconds").to_numpy(), minlength=workers)
    mean = float(seconds.mean()) if len(seconds) else 0.0
    return {
        "plan_version": version,
        "batches": mine,
        "cpu_seconds": [round(float(value), 6) for value in seconds],
        "max": float(seconds.max(initial=0.0)),
        "mean": mean,
        "max_over_mean": float(seconds.max()) / mean if mean else None,
        "objects_sent": _sum(loads, "objects"),
        "candidates": _sum(loads, "candidates"),
    }


def _last_batches(ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """The last batches, oldest first; one that was left unfinished is among them."""
    rows = ledgers.batches.slice(max(0, ledgers.batches.num_rows - SHOWN_BATCHES)).to_pylist()
    rows += ledgers.started_batches.to_pylist()
    kept = ("batch_id", "status", "plan_version", "objects", "discarded", "requests", "matches", "retractions")
    return [
        {
            **{name: row[name] for name in kept},
            "started_at": iso(row["started_at"]),
            "finished_at": iso(row["finished_at"]),
            "seconds": step_seconds(row["seconds"]) if row["seconds"] else None,
        }
        for row in rows
    ]


def _unfinished(home: AnyHome, ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """What was started and not done, and the command that finishes it: a killed process, or one at work just now."""
    found = []
    at_home = f"--home {shlex.quote(home.path)}"
    files = ledgers.started_files.to_pylist()
    if files:
        first = files[0]
        command = f"pststream ingest {first['kind']} {shlex.quote(first['path'])} {at_home}"
        found.append(
            {
                "what": "ingest", "id": first["ingest_id"], "since": iso(first["at"]),
                "files": [file["path"] for file in files[:10]], "remedy": command,
            }
        )  # fmt: skip
    found += [
        {
            "what": "batch",
            "id": row["batch_id"],
            "since": iso(row["started_at"]),
            "remedy": f"pststream match {at_home}",
        }
        for row in ledgers.started_batches.to_pylist()
    ]
    return found


def _index(reader: Reader, plan: dict[str, Any] | None) -> dict[str, Any]:
    """Data files, bytes and rows of the current plan's worker index, as its log says; and whether rows may be among
    them that migrations left with workers that no longer serve them.
    """
    actions = pa.table(reader.table(names.WORKER_INDEX).get_add_actions(flatten=True))
    if plan is None or not actions.num_rows:
        return {"files": 0, "bytes": 0, "rows": 0, "leftovers": False}
    mine = actions.filter(pc.equal(actions.column("partition.index_version").cast(pa.int64()), plan["index_version"]))
    return {
        "files": mine.num_rows,
        "bytes": _sum(mine, "size_bytes"),
        "rows": _sum(mine, "num_records"),
        "leftovers": _leftovers(reader, plan, mine),
    }


def _leftovers(reader: Reader, plan: dict[str, Any], files: pa.Table) -> bool:
    """Whether rows have moved since some file was written: maintain writes all of them anew."""
    version = pds.field("plan_version")
    since = (version > plan["index_version"]) & (version <= plan["version"]) & (pds.field("subscriptions") > 0)
    moved = pc.max(reader.read(names.MIGRATIONS, ["at"], since).column(0)).as_py()
    written = pc.min(files.column("modification_time").cast(pa.timestamp("ms", tz="UTC"))).as_py()
    return moved is not None and written is not None and written < moved


def render_status(document: dict[str, Any]) -> str:
    """The figures for a person to read."""
    parts = [
        *_lines_of_unfinished(document["unfinished"]),
        *lines_of_watcher(document["watcher"]),
        *_lines_of_logs(document),
        *_lines_of_quarantine(document["quarantined"]),
        *_lines_of_plan(document),
        *lines_of_deliveries(document["deliveries"]),
        *_lines_of_batches(document["batches"]),
        "versions       " + ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
    ]
    return "\n".join(map(escape_controls, parts))


def _lines_of_unfinished(unfinished: list[dict[str, Any]]) -> list[str]:
    lines = []
    for item in unfinished:
        lines.append(
            f"UNFINISHED     {item['what']} {item['id']}, since {item['since']}, unless it is at work just now"
        )
        lines.append(f"               to finish it: {item['remedy']}")
    return lines


def _lines_of_logs(document: dict[str, Any]) -> list[str]:
    totals, live = document["totals"], document["subscriptions"]
    batches = "1 batch" if totals["batches"] == 1 else f"{totals['batches']:,} batches"
    return [
        f"home           {document['home']}",
        f"watermark      {document['watermark'] or '- (no objects yet)'}",
        *(_line_of_log(kind, totals, document["lag"][kind]) for kind in ("objects", "requests")),
        f"subscriptions  {live['live']:,} live now, of {live['inserted']:,} ever inserted",
        f"matches        {totals['matches']:,} pairs in {batches}, {totals['retractions']:,} taken back",
    ]


def _lines_of_quarantine(files: int) -> list[str]:
    return [f"QUARANTINE     {files:,} files are held; see: pststream quarantine list"] if files else []


def _line_of_log(kind: str, totals: dict[str, Any], lag: dict[str, Any]) -> str:
    waiting = "none pending"
    if lag["files"]:
        oldest = lag.get("oldest_ts") or lag.get("oldest_at")
        files = "1 file" if lag["files"] == 1 else f"{lag['files']:,} files"
        waiting = f"{lag['rows']:,} pending in {files}" + (f", the oldest of {oldest}" if oldest else "")
    return f"{kind:14} {totals[kind]:,} accepted, {totals['rejected'][kind]:,} rejected; {waiting}"


def _lines_of_plan(document: dict[str, Any]) -> list[str]:
    plan, balance, index = document["plan"], document["balance"], document["index"]
    if plan is None:
        return ["plan           none yet; the first batch makes one (pststream match)"]
    lines = [
        f"plan           version {plan['version']}, {plan['planner']}, {plan['workers']} workers,"
        f" {plan['units']} units; imbalance {plan['imbalance']:.3g} predicted (greatest / least)"
    ]
    if retiring := plan["retiring"]:
        lines.append(
            f"retiring       version {retiring['version']}, {retiring['planner']}, still serves {retiring['live']:,} of"
            f" {document['subscriptions']['live']:,} live subscriptions; objects go to both"
        )
    if balance and balance["max_over_mean"]:
        lines.append(
            f"balance        {balance['max_over_mean']:.3g} measured (greatest / mean CPU time of a worker)"
            f" over {len(balance['batches'])} batches under plan {balance['plan_version']}"
        )
    left = "; some rows may be left over from migrations: pststream maintain drops them" if index["leftovers"] else ""
    size = f"{index['files']:,} files, {index['rows']:,} rows, {index['bytes'] / 1e6:,.1f} MB"
    return [*lines, f"index          {size}{left}"]


def _lines_of_batches(batches: list[dict[str, Any]]) -> list[str]:
    if not batches:
        return ["batches        none yet"]
    head = ("batch", "plan", "objects", "discarded", "requests", "matches", "taken back", "seconds", "finished")
    rows: list[tuple[str, ...]] = [head]
    for batch in batches:
        counts = [batch[name] for name in ("objects", "discarded", "requests", "matches", "retractions")]
        told = [f"{count:,}" if count is not None else "-" for count in counts]
        seconds = f"{sum(batch['seconds'].values()):.1f}" if batch["seconds"] else "-"
        finished = batch["finished_at"] or batch["status"]
        rows.append((str(batch["batch_id"]), str(batch["plan_version"]), *told, seconds, finished[:19]))
    return text_table(rows)
