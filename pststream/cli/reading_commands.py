"""Commands that change nothing in a home; none starts a JVM."""

import datetime as dt
from dataclasses import asdict
from typing import Any

from pststream.cli.command import BAD_USAGE, DONE, Answer, Context, check_out, refuse
from pststream.errors import UsageError
from pststream.escape_text import escape_controls


def export(context: Context, arguments: Any) -> Answer:
    """Write pairs to a file."""
    from pststream.reports.commands.export import export_matches

    document = export_matches(context.home.check(), arguments.out, _moment(arguments.since))
    return Answer(document, f"{document['out']}: {document['rows']} matches")


def _moment(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--since {text}: not a time", "give ISO 8601, as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def rejects(context: Context, arguments: Any) -> Answer:
    """Rows that were not accepted."""
    from pststream.quality.reject_reasons import REASONS
    from pststream.reports.commands.rejects import rejects as rows_of

    if arguments.reason is not None and arguments.reason not in REASONS:
        raise UsageError(f"--reason {arguments.reason}: no such reason", "one of: " + ", ".join(REASONS))
    rows = rows_of(context.home.check(), arguments.reason, arguments.limit)
    lines = [
        f"{row['file']}:{row['row']}  {row['field'] or '(row)'}  {row['reason']}: {row['detail']}  {row['raw'] or ''}"
        for row in rows
    ]
    return Answer({"rejects": rows}, "\n".join(map(escape_controls, lines)) or "no rejects")


def quarantine(context: Context, arguments: Any) -> Answer:
    """The files that a landing gate holds."""
    from pststream.state.quarantine import HELD, holds

    found = [hold for hold in holds(context.home.check()) if arguments.all or hold["status"] == HELD]
    lines = []
    for hold in found:
        path = escape_controls(hold["path"])
        lines.append(f"{hold['hold_id']}  {hold['status']}  {hold['kind']}  {path}  ({hold['bytes']} bytes)")
        lines += [f"   {escape_controls(reason)}" for reason in hold["reasons"]]
    return Answer({"quarantine": found}, "\n".join(lines) or "no file is held")


def status(context: Context, arguments: Any) -> Answer:
    """How it stands."""
    from pststream.reports.commands.status import render_status
    from pststream.reports.commands.status import status as status_of

    document = status_of(context.home.check())
    return Answer(document, render_status(document))


def metrics(context: Context, arguments: Any) -> Answer:
    """The figures of a home for Prometheus."""
    from pststream.reports.commands.metrics import metrics as metrics_of
    from pststream.reports.commands.metrics import write_metrics

    check_out(arguments.out)
    text = metrics_of(context.home.check())
    if arguments.out is None:
        return Answer({"metrics": text}, text.rstrip("\n"))
    write_metrics(text, arguments.out)
    return Answer({"out": arguments.out, "metrics": text}, f"{arguments.out}: written")


def explain(context: Context, arguments: Any) -> Answer:
    """Why an object did or did not reach a subscription."""
    from pststream.reports.commands.explain import explain as explain_pair
    from pststream.reports.commands.explain import render_explain

    document = explain_pair(context.home.check(), arguments.object_id, arguments.subscription_id)
    return Answer(document, render_explain(document))


def plans(context: Context, arguments: Any) -> Answer:
    """List the plans, or show one."""
    from pststream.reports.commands.plans import list_plans, render_plan, render_plans, show_plan

    refuse(f"plans {arguments.what}", {"--out": arguments.out, "--planners": arguments.planners})
    home = context.home.check()
    if arguments.what == "list":
        document: Any = list_plans(home)
        return Answer({"plans": document}, render_plans(document))
    document = show_plan(home, arguments.version)
    return Answer(document, render_plan(document))


def check_balance(context: Context, arguments: Any) -> Answer:
    """Whether the workers are in balance."""
    from pststream.pipeline.adjusting.balance_check import check_balance as check

    _only_reads(arguments)
    document = check(context.home, context.settings)
    way = "violates" if document["violated"] else "does not violate"
    text = (
        f"plan {document['plan_version']}: measured imbalance {document['measured_imbalance']:.3g} over"
        f" {document['batches']} batches {way} sigma {document['sigma']:g}"
    )
    return Answer(document, text if document["plan_version"] else "no plan yet")


def _only_reads(arguments: Any) -> None:
    options = {
        "--method": arguments.method, "--planner": arguments.planner, "--gain": arguments.repartition_gain,
        "--proposal": arguments.proposal, "--page": arguments.page, "--apply": arguments.apply,
        "--dry-run": arguments.dry_run,
    }  # fmt: skip
    if arguments.kind != "check":
        options["--sigma"] = arguments.sigma
    refuse(f"balance {arguments.kind}", options)


def history(context: Context, arguments: Any) -> Answer:
    """What moved when, why, and what it gained."""
    from pststream.reports.commands.plan_history import history as plans_of
    from pststream.reports.commands.plan_history import render_history

    _only_reads(arguments)
    rows = plans_of(context.home.check())
    return Answer({"plans": rows}, render_history(rows))


def report(context: Context, arguments: Any) -> Answer:
    """One self-contained page."""
    from pststream.reports.pages.report_page import write_report

    check_out(arguments.out, folder_is_made=True)
    context.home.check()
    document = write_report(context.home.path, arguments.out)
    return Answer(document, f"page: {arguments.out}")


def doctor(context: Context, arguments: Any) -> Answer:
    """Check what a run needs."""
    from pststream.cli.doctor import diagnose

    checks = diagnose(context.home.path)
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
        if not check.ok:
            lines.append(f"      {check.remedy}")
    code = DONE if all(check.ok for check in checks) else BAD_USAGE
    return Answer({"checks": [asdict(check) for check in checks]}, "\n".join(lines), code)
