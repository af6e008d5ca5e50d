"""Report the status of a home: backlog, live subscriptions, plan, measured balance, deliveries, watcher, batches."""

import datetime as dt
import json
import shlex
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import TIME, sum_column
from pststream.base.texts import byte_size, counted, duration, escape_controls, table_lines
from pststream.base.utc_times import iso, utc_now
from pststream.plans.imbalance import finite_imbalance, imbalance_of, imbalance_text
from pststream.reports.commands.plans import read_topk_planners
from pststream.reports.reading import home_figures
from pststream.reports.reading.answer_view import read_answer_sizes, render_answer_sizes
from pststream.reports.reading.pairs import gold_batch, has_gold_table
from pststream.tables.delta_tables import AnyHome, TableReader
from pststream.tables.ledgers import COLUMNS, LedgerHistory, log_key, seconds_ahead, step_seconds, sum_counts
from pststream.tables.log_events import SET_ASIDE

TABLES = (
    names.OBJECTS, names.REQUESTS, names.REJECTS, names.FILES, names.VOCABULARY, names.PLANS, names.PLAN_UNITS,
    names.WORKER_INDEX, names.UNIT_LOADS, names.MIGRATIONS, names.MATCHES, names.BATCHES,
    names.QUARANTINE, names.QUALITY_RESULTS,
    names.DELIVERIES, names.DEAD_LETTERS, names.ERASURES, names.WITHDRAWALS, names.TERM_STATISTICS,
    names.QUESTION_FILES, names.QUESTION_ANSWERS, names.QUESTIONS, names.ANSWER_LOG, names.ANSWERS,
    names.PLACEMENT_COUNTS, names.PLACEMENTS, names.PLACEMENT_AREAS, names.PLAN_NODES, names.TOPK_PLANS,
)  # fmt: skip
SHOWN_BATCHES = 5
MEASURED_BATCHES = 10


def read_status(home: AnyHome, max_ahead_seconds: int = 0) -> dict[str, Any]:
    """Read the present figures of a home, as `status_at` describes them."""
    return status_at(home, utc_now(), max_ahead_seconds)


def status_at(home: AnyHome, now: dt.datetime, max_ahead_seconds: int = 0) -> dict[str, Any]:
    """Read the figures of a home when the clock shows `now`. Times are ISO 8601 texts in UTC.

    `watermark_ahead_seconds` is how much further ahead of the clock the watermark is than `max_ahead_seconds` allows,
    0 if it is not or if that is 0.

    The lag counts the rows that no finished batch has processed, including the rows of an unfinished batch.
    """
    reader = TableReader(home)
    ledgers = LedgerHistory(reader)
    last_file = pc.max(ledgers.files_of("requests").column("file_seq")).as_py() or 0
    settled = pds.field("request_key") < log_key(last_file + 1, 0)  # requests of finished ingests
    moment, last_hour = pa.scalar(now, TIME), pa.scalar(now - dt.timedelta(hours=1), TIME)
    recent = ledgers.files.filter(pc.greater_equal(ledgers.files.column("started_at"), last_hour))
    withdrawn = [(row["kind"], log_key(row["file_seq"], 1)) for row in ledgers.withdrawals]
    processed = {names.OBJECTS: ledgers.objects_matched, names.REQUESTS: ledgers.requests_applied}
    plan = _plan(reader, settled, moment)
    watermark = ledgers.watermark()
    statistics: dict[str, Any] = {"version": 0, "objects": 0, "terms": 0, "made_at": None}
    for last in ledgers.statistics_changes[-1:]:
        counts = json.loads(last["options"])
        statistics = {"version": last["statistics_version"], "objects": counts["objects"], "terms": counts["terms"]}
        statistics["made_at"] = iso(last["started_at"])
    quarantined = home_figures.read_quarantined_files(reader, ledgers)
    by_kind = home_figures.count_subscriptions(reader, settled, moment)
    return {
        "home": home.path,
        "at": iso(now),
        "watermark": iso(watermark),
        "watermark_ahead_seconds": seconds_ahead(watermark, now, max_ahead_seconds),
        "withdrawals": {
            "done": len(withdrawn),
            "pending": sum(key > processed[kind] for kind, key in withdrawn),
            "set_aside": sum(SET_ASIDE in json.loads(row["options"]) for row in ledgers.withdrawals),
        },
        "term_statistics": statistics,
        "lag": {
            "objects": home_figures.measure_object_lag(reader, ledgers),
            "requests": home_figures.measure_request_lag(ledgers),
            "seconds": home_figures.lag_seconds_of(ledgers, now),
        },
        "totals": _totals(ledgers),
        "last_hour": {name: sum_column(recent, name) for name in ("accepted", "rejected")},
        "subscriptions": {name: sum(one[name] for one in by_kind.values()) for name in ("live", "inserted")},
        "subscriptions_by_kind": by_kind,
        "answers": read_answer_sizes(reader, ledgers),
        "plan": plan,
        "balance": _balance(reader, ledgers),
        "batches": _last_batches(ledgers),
        "deliveries": home_figures.read_deliveries(reader, ledgers),
        "watcher": home_figures.read_watcher(home, now),
        "unfinished": _unfinished(home, ledgers),
        "pairs_table": _pairs_table(home, ledgers),
        "quarantined": len(quarantined),
        "quarantined_ids": [row["hold_id"] for row in quarantined],
        "index": _index(reader, plan),
        "questions": home_figures.count_questions(reader),
        "versions": {name: reader.table(name).version() for name in TABLES},
    }


def _pairs_table(home: AnyHome, ledgers: LedgerHistory) -> dict[str, int] | None:
    """The last batch of which the gold table has the pairs, and how many are done since; None without a table."""
    if not has_gold_table(home):
        return None
    last = gold_batch(home)
    since = pc.greater(ledgers.batches.column("batch_id"), last)
    return {"batch_id": last, "behind": int(pc.sum(since).as_py() or 0)}


def _totals(ledgers: LedgerHistory) -> dict[str, Any]:
    kinds = {kind: ledgers.files_of(kind) for kind in ("objects", "requests")}
    done = ledgers.batches
    return {
        **{kind: sum_column(files, "accepted") for kind, files in kinds.items()},
        "rejected": {kind: sum_column(files, "rejected") for kind, files in kinds.items()},
        "files": {kind: files.num_rows for kind, files in kinds.items()},
        "batches": done.num_rows,
        "matches": sum_column(done, "matches"),
        "retractions": sum_column(done, "retractions"),
        **sum_counts(done),
    }


def _plan(reader: TableReader, settled: pds.Expression, now: pa.Scalar) -> dict[str, Any] | None:
    """The current plan, with the live subscriptions of the plan that it retires; None if there is no plan."""
    columns = (
        "plan_version", "index_version", "retiring_version", "retiring_to", "planner", "workers", "units", "load_total",
        "load_max", "imbalance", "created_at", "topk_version",
    )  # fmt: skip
    rows = reader.read(names.PLANS, columns).sort_by("plan_version").to_pylist()
    if not rows:
        return None
    current = rows[-1]
    version, last = current.pop("retiring_version"), current.pop("retiring_to")
    retiring = None
    if version is not None:
        left = sum(home_figures.count_live(reader, settled, now, last).values())
        planner = next(row["planner"] for row in rows if row["plan_version"] == version)
        retiring = {"version": version, "planner": planner, "subscriptions_to": last, "live": left}
    current["imbalance"] = finite_imbalance(current["imbalance"], None)
    current["created_at"] = iso(current["created_at"])
    current["topk_planner"] = read_topk_planners(reader)[current.pop("topk_version")]
    return {"version": current.pop("plan_version"), **current, "retiring": retiring}


def _balance(reader: TableReader, ledgers: LedgerHistory) -> dict[str, Any] | None:
    """Sum the CPU seconds of each worker over the last MEASURED_BATCHES batches, without batches of earlier plans.

    The imbalance is None if a worker has had no work.
    """
    last = ledgers.batches.slice(max(0, ledgers.batches.num_rows - MEASURED_BATCHES))
    if not last.num_rows:
        return None
    version = last.column("plan_version")[-1].as_py()
    mine = last.filter(pc.equal(last.column("plan_version"), version)).column("batch_id").to_pylist()
    measured = (pds.field("unit") == names.WHOLE_WORKER) & (pds.field("worker") >= 0) & pds.field("batch_id").isin(mine)
    loads = reader.read(names.UNIT_LOADS, ("worker", "cpu_seconds", "objects", "candidates"), measured)
    plans = reader.read(names.PLANS, ["workers"], pds.field("plan_version") == version)
    workers = int(plans.column(0)[0].as_py()) if plans.num_rows else 0
    worker = loads.column("worker").to_numpy()
    seconds = np.bincount(worker, loads.column("cpu_seconds").to_numpy(), minlength=workers)
    return {
        "plan_version": version,
        "batches": mine,
        "cpu_seconds": [round(float(value), 6) for value in seconds],
        "max": float(seconds.max(initial=0.0)),
        "min": float(seconds.min()) if len(seconds) else 0.0,
        "imbalance": finite_imbalance(imbalance_of(seconds)) if seconds.any() else None,
        "objects_sent": sum_column(loads, "objects"),
        "candidates": sum_column(loads, "candidates"),
    }


def _last_batches(ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """The last batches, oldest first, including an unfinished one."""
    rows = ledgers.batches.slice(max(0, ledgers.batches.num_rows - SHOWN_BATCHES)).to_pylist()
    rows += ledgers.started_batches.to_pylist()
    kept = (
        "batch_id", "status", "plan_version", "objects", "discarded", "requests", "matches", "retractions", "engine",
    )  # fmt: skip
    return [
        {
            **{name: row[name] for name in kept},
            **{name: dict(row[name] or ()) for name in COLUMNS},
            "started_at": iso(row["started_at"]),
            "finished_at": iso(row["finished_at"]),
            "seconds": step_seconds(row["seconds_by_step"]) if row["seconds_by_step"] else None,
        }
        for row in rows
    ]


def _unfinished(home: AnyHome, ledgers: LedgerHistory) -> list[dict[str, Any]]:
    """Ingests and batches that were started and are not done, each with the command that finishes it.

    Their process was killed or is still running.
    """
    unfinished: list[dict[str, Any]] = []
    at_home = f"--home {shlex.quote(home.path)}"
    files = ledgers.started_files.to_pylist()
    if files:
        first = files[0]
        command = f"pststream ingest {first['kind']} {shlex.quote(first['path'])} {at_home}"
        begun = {"what": "ingest", "id": first["ingest_id"], "since": iso(first["started_at"])}
        unfinished.append({**begun, "files": [file["path"] for file in files[:10]], "remedy": command})
    for row in ledgers.started_batches.to_pylist():
        begun = {"what": "batch", "id": row["batch_id"], "since": iso(row["started_at"])}
        unfinished.append({**begun, "remedy": f"pststream match {at_home}"})
    return unfinished


def _index(reader: TableReader, plan: dict[str, Any] | None) -> dict[str, Any]:
    """Data files, bytes and rows of the current plan's worker index, from its Delta log.

    leftovers: whether it may contain rows of workers that no longer serve them, left by migrations
    """
    actions = pa.table(reader.table(names.WORKER_INDEX).get_add_actions(flatten=True))
    if plan is None or not actions.num_rows:
        return {"files": 0, "bytes": 0, "rows": 0, "leftovers": False}
    mine = actions.filter(pc.equal(actions.column("partition.index_version").cast(pa.int64()), plan["index_version"]))
    # Rows may have moved since a data file was written; `maintain` rewrites all files.
    version = pds.field("plan_version")
    since = (version > plan["index_version"]) & (version <= plan["version"]) & (pds.field("subscriptions") > 0)
    moved = pc.max(reader.read(names.MIGRATIONS, ["decided_at"], since).column(0)).as_py()
    written = pc.min(mine.column("modification_time").cast(pa.timestamp("ms", tz="UTC"))).as_py()
    return {
        "files": mine.num_rows,
        "bytes": sum_column(mine, "size_bytes"),
        "rows": sum_column(mine, "num_records"),
        "leftovers": moved is not None and written is not None and written < moved,
    }


def render_status(document: dict[str, Any]) -> str:
    """Render the status as text."""
    parts: list[str] = []
    for item in document["unfinished"]:
        begun = f"{item['what']} {item['id']}, started at {item['since']}: still running, or killed"
        parts += [f"UNFINISHED     {begun}", f"               if it was killed, finish it with: {item['remedy']}"]
    parts += [*home_figures.render_watcher(document["watcher"]), *_lines_of_logs(document)]
    if files := document["quarantined"]:
        parts.append(f"QUARANTINE     {counted(files, 'file')}; see: pststream quarantine list")
    parts += [
        *_lines_of_plan(document),
        *home_figures.render_deliveries(document["deliveries"]),
        *_lines_of_questions(document["questions"]),
        *_lines_of_batches(document["batches"]),
        "versions       " + ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
    ]
    return "\n".join(map(escape_controls, parts))


def _lines_of_logs(document: dict[str, Any]) -> list[str]:
    totals, live, by_kind = (document[name] for name in ("totals", "subscriptions", "subscriptions_by_kind"))
    lines = [f"home           {document['home']}", f"watermark      {document['watermark'] or '- (no objects yet)'}"]
    if ahead := document["watermark_ahead_seconds"]:
        lines.append(
            f"AHEAD          the watermark is {duration(ahead)} further ahead of the clock than"
            " max_ahead_seconds allows; see: pststream withdraw --help"
        )
    if pending := document["withdrawals"]["pending"]:
        lines.append(f"withdrawals    {pending:,} pending; pststream match retracts their matches")
    if aside := document["withdrawals"]["set_aside"]:
        lines.append(f"SET ASIDE      {counted(aside, 'row')}; see: pststream rejects --reason set_aside")
    statistics = document["term_statistics"]
    if statistics["version"]:
        texts = f"{counted(statistics['objects'], 'object')} with {counted(statistics['terms'], 'term')}"
        lines.append(f"statistics     version {statistics['version']} of {statistics['made_at'][:19]}: {texts}")
    return [
        *lines,
        *(_line_of_log(kind, totals, document["lag"][kind]) for kind in ("objects", "requests")),
        f"subscriptions  {live['live']:,} live of {live['inserted']:,} inserted{home_figures.describe_kinds(by_kind)}",
        f"matches        {counted(totals['matches'], 'pair')} in {counted(totals['batches'], 'batch', 'batches')},"
        f" {totals['retractions']:,} retracted",
        *render_answer_sizes(document["answers"], totals, document["batches"]),
        *_lines_of_pairs_table(document["pairs_table"]),
    ]


def _lines_of_pairs_table(table: dict[str, int] | None) -> list[str]:
    if table is None:
        return []
    behind = f", {counted(table['behind'], 'batch', 'batches')} behind" if table["behind"] else ""
    return [f"gold/pairs     up to batch {table['batch_id']:,}{behind}"]


def _lines_of_questions(answered: dict[str, int]) -> list[str]:
    if not answered["files"] and not answered["unfinished"]:
        return []
    begun = f", {answered['unfinished']:,} begun" if answered["unfinished"] else ""
    asked = f"{answered['questions']:,} in {counted(answered['files'], 'file')}{begun}"
    rows = counted(answered["rows"], "row")
    return [f"questions      {asked}; {answered['rejected']:,} rejected; {rows} of answers"]


def _line_of_log(kind: str, totals: dict[str, Any], lag: dict[str, Any]) -> str:
    waiting = "none pending"
    if lag["files"]:
        oldest = lag.get("oldest_ts") or lag.get("oldest_at")
        since = f", oldest {oldest}" if oldest else ""
        waiting = f"{lag['rows']:,} pending in {counted(lag['files'], 'file')}{since}"
    return f"{kind:14} {totals[kind]:,} accepted, {totals['rejected'][kind]:,} rejected; {waiting}"


def _lines_of_plan(document: dict[str, Any]) -> list[str]:
    plan, balance, index = document["plan"], document["balance"], document["index"]
    if plan is None:
        return ["plan           none yet; the first pststream match makes one"]
    lines = [
        f"plan           version {plan['version']}, {plan['planner']}, {counted(plan['workers'], 'worker')},"
        f" {counted(plan['units'], 'unit')}; predicted imbalance {imbalance_text(plan['imbalance'])}"
        " (greatest / least load)"
    ]
    if plan["topk_planner"] != names.BY_BUCKET:
        lines.append(f"plan of topk   {plan['topk_planner']}; pststream plans show --kinds topk shows its units")
    if retiring := plan["retiring"]:
        lines.append(
            f"retiring       version {retiring['version']}, {retiring['planner']}, still serves {retiring['live']:,} of"
            f" {counted(document['subscriptions']['live'], 'live subscription')}; objects go to both plans"
        )
    if balance and balance["max"]:
        measured, seconds = imbalance_text(balance["imbalance"]), balance["cpu_seconds"]
        idle = f": {seconds.count(0.0)} of {counted(len(seconds), 'worker')} without matching work"
        measured += idle if balance["imbalance"] is None else " (greatest / least CPU time)"
        lines.append(
            f"balance        measured imbalance {measured}"
            f" over {counted(len(balance['batches']), 'batch', 'batches')} under plan {balance['plan_version']}"
        )
    leftovers = "; may contain leftovers of migrations, which pststream maintain deletes" if index["leftovers"] else ""
    size = f"{counted(index['files'], 'file')}, {counted(index['rows'], 'row')}, {byte_size(index['bytes'])}"
    return [*lines, f"index          {size}{leftovers}"]


def _lines_of_batches(batches: list[dict[str, Any]]) -> list[str]:
    if not batches:
        return ["batches        none yet"]
    head = ("batch", "plan", "objects", "discarded", "requests", "matches", "retracted", "took", "engine", "finished")
    rows: list[tuple[str, ...]] = [head]
    for batch in batches:
        counts = [batch[name] for name in ("objects", "discarded", "requests", "matches", "retractions")]
        texts = [f"{count:,}" if count is not None else "-" for count in counts]
        seconds = duration(sum(batch["seconds"].values())) if batch["seconds"] else "-"
        last = (seconds, batch["engine"] or "-", (batch["finished_at"] or batch["status"])[:19])
        rows.append((str(batch["batch_id"]), str(batch["plan_version"]), *texts, *last))
    return table_lines(rows)
