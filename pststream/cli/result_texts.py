"""Format the result documents of commands as text for people, where `--json` was not given."""

from itertools import zip_longest
from typing import Any

from pststream.base.texts import byte_size, counted, counted_matches, duration, escape_controls
from pststream.plans.imbalance import imbalance_text, read_imbalance
from pststream.plans.plan_rows import describe_choice

MAX_SHOWN_RAW = 80
"""Characters of a rejected value in the result of `ingest`."""


def describe_ingest(kind: str, document: dict[str, Any]) -> str:
    """Describe an ingest of `kind`: counts, then quarantined and pending files."""
    text = f"{kind}: {counted(document['files'], 'file')} ingested"
    if document["files_skipped"]:
        text += f", {document['files_skipped']:,} skipped: already ingested"
    text += f"; {counted(document['accepted'], 'row')} accepted"
    if document["rejected"]:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in document["rejects_by_reason"].items())
        text += f", {document['rejected']:,} rejected: {reasons}\n  see: pststream rejects"
    for file in document["mostly_rejected"]:
        text += "\n  " + escape_controls(_describe_mostly_rejected(file))
        for row in file["examples"]:
            raw = "" if row["raw"] is None else f"  {row['raw'][:MAX_SHOWN_RAW]}"
            field = f" {row['field']}:" if row["field"] else ""
            text += "\n    " + escape_controls(f"row {row['row']}:{field} {row['reason']}: {row['detail']}{raw}")
    for hold in document["quarantined"]:
        line = f"quarantined as {hold['hold_id']}: {hold['path']}: {'; '.join(hold['reasons'])}"
        text += "\n  " + escape_controls(line)
    if document["quarantined"]:
        text += "\n  see: pststream quarantine list"
    for page in document["data_docs"]:
        text += "\n  " + escape_controls(f"Data Docs: {page}")
    if document["files_pending"]:
        first = document["pending"][0]
        oldest = escape_controls(f"{first['path']}: {first['reason']}")
        text += f"\n  {counted(document['files_pending'], 'file')} pending, the oldest: {oldest}"
    return text


def _describe_mostly_rejected(file: dict[str, Any]) -> str:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in file["reasons"].items())
    text = f"{file['path']}: {file['rejected']:,} of {file['rejected'] + file['accepted']:,} rows rejected: {reasons}"
    if "late" in file["reasons"]:
        text += f"; watermark {file['watermark']}, lateness_seconds = {file['lateness_seconds']}"
    if "future" in file["reasons"]:
        text += f"; max_ahead_seconds = {file['max_ahead_seconds']}"
    if "duplicate" in file["reasons"]:
        text += "; to read ids again, first withdraw the file: pststream withdraw --file PATH"
    return text


def describe_match(document: dict[str, Any]) -> str:
    """Describe the micro-batches of one run of `match`."""
    if not document["batches"]:
        return "nothing is pending"
    return describe_batches(len(document["batches"]), document["objects"], document["matches"], document["changes"])


def describe_answers(document: dict[str, Any]) -> str:
    """Describe the answered files of questions."""
    text = f"questions: {counted(document['files'], 'file')} answered; {counted(document['questions'], 'question')}"
    rejected = f", {document['rejected']:,} rejected (see: pststream rejects)" if document["rejected"] else ""
    return f"{text}{rejected}, {counted(document['rows'], 'row')} of answers"


def describe_batches(batches: int, objects: int, matches: int, changes: int) -> str:
    """Describe micro-batches by their counts; changes: rows that entered or left answers."""
    text = f"{counted(batches, 'batch', 'batches')}: {counted(objects, 'object')}"
    return f"{text}, {counted_matches(matches, changes)}"


def describe_plan(document: dict[str, Any], dry_run: bool) -> str:
    """Describe a new plan: its size and the loads that the load model predicts."""
    head = f"plan {document['plan_version']} (not saved)" if dry_run else f"plan {document['plan_version']}"
    size = f"{counted(document['workers'], 'worker')}, {counted(document['units'], 'unit')}"
    loads = f"predicted load {document['load_total']:.4g} s, greatest of a worker {document['load_max']:.4g} s"
    text = f"{head}: {document['planner']}, {size}; {loads}, imbalance {imbalance_text(document['imbalance'])}"
    if "moved_bytes" in document:
        size = f"{byte_size(document['moved_bytes'])}, of {byte_size(document['least_bytes'])} at least"
        text += f"\n  {counted(document['moved_subscriptions'], 'subscription')} to move: {size}"
    if "choice" in document:
        text += f"\n  {describe_choice(document['choice'])}"
    if read_imbalance(document["imbalance"]) <= document["sigma"]:
        return text
    return f"{text}\n  warning: the imbalance is over sigma, {document['sigma']:g}, the constraint of the plan"


def describe_topk_plan(document: dict[str, Any]) -> str:
    """Describe a new plan of `topk` subscriptions: its size, and what its units store and receive of the sample."""
    saved = " (not saved)" if document["dry_run"] else ""
    head = f"plan {document['plan_version']}{saved}, topk: {document['planner']}, {counted(document['units'], 'unit')}"
    if "copies" not in document:
        return f"{head}, the answer buckets"
    copies = f"{document['replication']:.3g} units a subscription, {document['copies']:.3g} units an object"
    return f"{head}; {copies}, imbalance {imbalance_text(document['imbalance'])}"


def describe_adjustment(document: dict[str, Any]) -> str:
    """Describe a balance adjustment: what moves and the loads of the workers before and after."""
    if document["plan_version_after"] == document["plan_version_before"]:
        return f"nothing to move: {document['reason']}"
    verb = "would move" if document["dry_run"] else "moved"
    moved = f"{counted(document['moved_subscriptions'], 'subscription')} (about {byte_size(document['moved_bytes'])})"
    versions = f"plan {document['plan_version_before']} -> {document['plan_version_after']}"
    lines = [f"{verb} {moved}, {versions}: {document['reason']}"]
    if document["least_bytes"] is not None:
        lines.append(f"  to move all subscriptions takes {byte_size(document['least_bytes'])} at least")
    if document["retiring_version"] is not None:
        lines.append(f"  plan {document['retiring_version']} continues to serve the existing subscriptions")
    for move in document["moves"]:
        cells = counted(move["cells"], "cell")
        what = cells if move["terms"] is None else f"{counted(move['terms'], 'term')} of {cells}"
        workers = f" from worker {move['origin']} to {move['target']}" if move["origin"] >= 0 else ""
        lines.append(f"  {what}{workers} ({move['reason']})")
    before, after = document["load_before"], document["load_after"]
    loads = list(zip_longest(before, after, fillvalue=0.0)) if before else []
    lines += ["worker  load before  load after"] if loads else []
    lines += [f"{worker:6}  {before:11.4g}  {after:10.4g}" for worker, (before, after) in enumerate(loads)]
    if document["dry_run"]:
        lines.append("nothing was changed; add --apply to apply this")
    return "\n".join(lines)


def describe_maintenance(document: dict[str, Any]) -> str:
    """Describe what `maintain` dropped, compacted, removed and wrote."""
    dropped = f"dropped {counted(document['dropped_rows'], 'ended index row')}"
    compacted = f"index files {document['files_before']:,} -> {document['files_after']:,}"
    text = f"{dropped}; {compacted}; removed {counted(document['files_removed'], 'old file')}"
    expired = ", ".join(f"{count:,} of {table}" for table, count in document["rows_expired"].items())
    text += f"; removed old rows: {expired}" if expired else ""
    if snapshot := document["answer_snapshot"]:
        text += (
            f"; wrote the snapshot of answers after batch {snapshot['batch_id']}, {counted(snapshot['rows'], 'row')}"
        )
    return text


def describe_pairs(document: dict[str, Any]) -> str:
    """Describe an update of the gold table of pairs: up to which batch it is, and what changed."""
    before, now = document["batch_from"], document["batch_to"]
    if document["dry_run"]:
        return f"gold/pairs: up to batch {before:,}; {counted(now - before, 'batch', 'batches')} would follow"
    rows = f"{counted(document['rows'], 'row')}, {document['deleted']:,} retracted"
    return f"gold/pairs: batch {before:,} -> {now:,}; {rows}{'; rebuilt' if document['rebuilt'] else ''}"


def describe_erasure(document: dict[str, Any]) -> str:
    """Describe an erasure: rows by table, where the data still is, and until when."""
    if not document["rows"] and not document["quarantined_files"]:
        return "no table has these ids"
    verb = "would remove or change" if document["dry_run"] else "removed or changed"
    lines = [f"{verb} {count:,} rows of {table}" for table, count in document["rows"].items()]
    for path in document["quarantined_files"]:
        what = "would discard" if document["dry_run"] else "discarded"
        lines.append(escape_controls(f"{what} a quarantined file that names an id, or that cannot be searched: {path}"))
    if document["files"]:
        lines.append(f"deleted {counted(document['files'], 'page or log', 'pages and logs')}")
    if document["files_until"]:
        day = document["files_until"].date()
        lines.append(f"older versions of the tables hold the rows until the first maintain after {day}")
    if document["versions_remain"]:
        lines.append(
            "the bucket may keep what is deleted: delete its noncurrent versions, or let a lifecycle rule do it"
        )
    if not document["dry_run"]:
        lines.append("backups made before hold the rows; so do the files that they came from:")
        lines += [escape_controls(f"  {path}") for path in document["input_files"]]
    return "\n".join(lines)


def describe_demo(document: dict[str, Any]) -> str:
    """Describe the outcome of the demo and what to look at next."""
    objects, subscriptions = counted(document["objects"], "object"), counted(document["subscriptions"], "subscription")
    matches = counted(document["matches"], "match", "matches")
    answers = "".join(
        f"answer: {answer['subscription_id']:15} {answer['kind']:15} {counted(answer['rows'], 'row')},"
        f" first {escape_controls(answer['first'])}\n"
        for answer in document["answers"]
    )
    return (
        f"matched {objects} against {subscriptions}: {matches} in {duration(document['seconds'])}\n{answers}"
        f"page:   {document['report']}\nhome:   {document['home']}\ntry:    pststream status --home {document['home']}"
    )


def describe_delivery(document: dict[str, Any]) -> str:
    """Describe a delivery, a line for each sink."""
    if not document["sinks"]:
        return "no sink is configured: see [sinks.<name>] in pststream.toml"
    lines = []
    for name, outcome in document["sinks"].items():
        counts = f"{outcome['delivered']:,} delivered, {outcome['refused']:,} refused"
        left = f", {counted(outcome['batches_left'], 'batch', 'batches')} left" if outcome["batches_left"] else ""
        reason = f"\n  {outcome['reason']}" if outcome["reason"] else ""
        lines.append(f"{name} ({outcome['kind']}): {outcome['state']}, {counts}{left}{reason}")
    return "\n".join(lines)


def describe_replay(document: dict[str, Any]) -> str:
    """Describe a replay of dead letters, a line for each sink."""
    lines = []
    for name, outcome in document["sinks"].items():
        reason = f" ({outcome['reason']})" if outcome["reason"] else ""
        left = counted(outcome["dead"], "dead letter")
        lines.append(f"{name}: {outcome['delivered']:,} delivered, {left} left{reason}")
    return "\n".join(lines) or "no sink is configured: see [sinks.<name>] in pststream.toml"
