"""Commands that only read; none starts a JVM."""

import datetime as dt
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pststream.errors import UsageError
from pststream.plain import plain

if TYPE_CHECKING:
    from pststream.cli.main import Answer, Context


def _answer(document: Any, text: str, code: int = 0) -> "Answer":
    from pststream.cli.main import Answer

    return Answer(document, text, code)


def export(context: "Context", arguments: Any) -> "Answer":
    """Write pairs to a file."""
    from pststream.reports.export import export_matches

    document = export_matches(context.home.check(), arguments.out, _moment(arguments.since))
    return _answer(document, f"{document['out']}: {document['rows']} matches")


def _moment(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--since {text}: not a time", "give ISO 8601, as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def rejects(context: "Context", arguments: Any) -> "Answer":
    """Rows that were not accepted."""
    from pststream.reports.rejects import rejects as rows_of

    rows = rows_of(context.home.check(), arguments.reason, arguments.limit)
    lines = [
        f"{row['file']}:{row['row']}  {row['field'] or '(row)'}  {row['reason']}: {row['detail']}  {row['raw'] or ''}"
        for row in rows
    ]
    return _answer({"rejects": rows}, "\n".join(map(plain, lines)) or "no rejects")


def quarantine(context: "Context", arguments: Any) -> "Answer":
    """The files that a landing gate holds."""
    from pststream.state.quarantine import HELD, holds

    found = [hold for hold in holds(context.home.check()) if arguments.all or hold["status"] == HELD]
    lines = []
    for hold in found:
        path = plain(hold["path"])
        lines.append(f"{hold['hold_id']}  {hold['status']}  {hold['kind']}  {path}  ({hold['bytes']} bytes)")
        lines += [f"   {plain(reason)}" for reason in hold["reasons"]]
    return _answer({"quarantine": found}, "\n".join(lines) or "no file is held")


def status(context: "Context", arguments: Any) -> "Answer":
    """How it stands."""
    from pststream.reports.status import render_status
    from pststream.reports.status import status as status_of

    document = status_of(context.home.check())
    return _answer(document, render_status(document))


def metrics(context: "Context", arguments: Any) -> "Answer":
    """The figures of a home for Prometheus."""
    from pststream.reports.metrics import metrics as metrics_of
    from pststream.reports.metrics import write_metrics

    text = metrics_of(context.home.check())
    if arguments.out is None:
        return _answer({"metrics": text}, text.rstrip("\n"))
    write_metrics(text, arguments.out)
    return _answer({"out": arguments.out, "metrics": text}, f"{arguments.out}: written")


def explain(context: "Context", arguments: Any) -> "Answer":
    """Why an object did or did not reach a subscription."""
    from pststream.reports.explain import explain as explain_pair
    from pststream.reports.explain import render_explain

    document = explain_pair(context.home.check(), arguments.object_id, arguments.subscription_id)
    return _answer(document, render_explain(document))


def plans(context: "Context", arguments: Any) -> "Answer":
    """List the plans, or show one."""
    from pststream.reports.plans import list_plans, render_plan, render_plans, show_plan

    home = context.home.check()
    if arguments.what == "list":
        document: Any = list_plans(home)
        return _answer({"plans": document}, render_plans(document))
    document = show_plan(home, arguments.version)
    return _answer(document, render_plan(document))


def history(context: "Context", arguments: Any) -> "Answer":
    """What moved when, why, and what it gained."""
    from pststream.reports.history import history as plans_of
    from pststream.reports.history import render_history

    rows = plans_of(context.home.check())
    return _answer({"plans": rows}, render_history(rows))


def report(context: "Context", arguments: Any) -> "Answer":
    """One self-contained page."""
    from pststream.reports.page import write_report

    context.home.check()
    document = write_report(context.home.path, arguments.out)
    return _answer(document, f"page: {arguments.out}")


def doctor(context: "Context", arguments: Any) -> "Answer":
    """Check what a run needs."""
    from pststream.cli.doctor import diagnose

    checks = diagnose(context.home.path)
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
        if not check.ok:
            lines.append(f"      {check.remedy}")
    code = 0 if all(check.ok for check in checks) else 2
    return _answer({"checks": [asdict(check) for check in checks]}, "\n".join(lines), code)
