"""The page in Airflow: how a home stands just now, one section a question, and forms to look one thing up."""

import datetime as dt
from pathlib import PurePath
from typing import Any
from urllib.parse import urlencode

import numpy as np

from pststream.format_values import counted, moment, percent, short, whole
from pststream.reports.pages.adjustment_page import loads_table
from pststream.reports.pages.airflow_data import LATEST_REJECTS, Live
from pststream.reports.pages.balance_section import balance_section
from pststream.reports.pages.batches_section import batches_section
from pststream.reports.pages.html_document import whole_page
from pststream.reports.pages.matches_section import rejects_section
from pststream.reports.pages.report_page import legend, map_note
from pststream.reports.plots.bar_chart import bar_plot
from pststream.reports.plots.html import Child, Markup, element, joined
from pststream.reports.plots.plan_map import draw_map, map_tools
from pststream.reports.reading.batch_history import BatchView

SECTIONS = [
    ("look-up", "Look up"), ("map", "Map"), ("balance", "Balance"), ("throughput", "Throughput"),
    ("migrations", "Migrations"), ("rejects", "Rejects"), ("quarantine", "Quarantine"), ("delivery", "Delivery"),
]  # fmt: skip
_HELD = 20
_TONES = {"ok": "good", "removed": "wait"}


def live_page(live: Live) -> str:
    """The page as text."""
    return whole_page(
        "PSTStream",
        element("a", "Skip to the content", href="#content", class_="skip"),
        _header(live),
        element("main", _sections(live), id="content"),
        element("footer", f"As of {moment(live.at)} UTC. This page only reads, and loads nothing from elsewhere."),
        forms=True,
    )


def section(name: str, title: str, *content: Markup | None) -> Markup:
    """A part of a page, with its heading."""
    return element("section", element("h2", title, id=f"at-{name}"), *content, aria_labelledby=f"at-{name}")


def scrolled(label: str, heads: list[str], rows: list[list[Any]], class_: str = "") -> Markup:
    """A table in a frame that scrolls in a narrow window; the first cell of a row is its head."""
    head = element("tr", [element("th", title, scope="col") for title in heads])
    cells = [(element("th", first, scope="row"), [element("td", cell) for cell in more]) for first, *more in rows]
    body = [element("tr", row) for row in cells]
    table = element("table", element("thead", head), element("tbody", body), class_=f"plain {class_}".strip())
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def link(page: str, text: str, **query: str) -> Markup:
    """A link to another page of the plugin."""
    return element("a", text, href=f"{page}?{urlencode(query)}")


def problems_of(problems: list[str]) -> Markup | None:
    """What could not be read."""
    items = element("ul", [element("li", problem) for problem in problems])
    return element("div", items, class_="problems", role="alert") if problems else None


def tiles(facts: list[tuple[str, Child, Child]]) -> Markup:
    """Figures: title, value, and what it means."""
    parts = [
        element("div", element("dt", title), element("dd", value), element("dd", more) if more else None)
        for title, value, more in facts
    ]
    return element("dl", parts, class_="tiles")


def _header(live: Live) -> Markup:
    links = [element("li", element("a", title, href=f"#at-{name}")) for name, title in SECTIONS]
    return element(
        "header",
        element("h1", "PSTStream"),
        element("p", f"{live.home} · {moment(live.at)} UTC · ", element("a", "Reload", href="./"), class_="quiet"),
        problems_of(live.problems),
        tiles(_facts(live)),
        element("nav", element("ul", links), aria_label="Sections"),
    )


def _facts(live: Live) -> list[tuple[str, Child, Child]]:
    totals, batches = live.course.totals, live.course.batches
    newest = totals.newest_object
    objects, requests = live.lag.get("objects", {}), live.lag.get("requests", {})
    last = batches[-1].finished_at if batches else None
    unfinished = live.course.unfinished
    begun = f"batch {unfinished} has begun" if unfinished is not None else None
    behind = sum(sink["batches_left"] for sink in live.sinks)
    rejected = totals.rejected_objects + totals.rejected_requests
    return [
        ("Objects waiting", whole(objects.get("rows", 0)), _waiting(objects, live)),
        ("Requests waiting", whole(requests.get("rows", 0)), _waiting(requests, live)),
        ("Newest object", _ago(newest, live.at), f"{moment(newest)} UTC" if newest else None),
        ("Last batch", _ago(last, live.at), begun or (f"{moment(last)} UTC" if last else "none yet")),
        ("Objects", _big(totals.objects), f"in {counted(totals.batches, 'batch', 'batches')}"),
        ("Subscriptions", _big(totals.insertions), f"{whole(totals.deletions)} of them deleted"),
        ("Matches", _big(totals.matches), f"{whole(totals.retractions)} taken back" if totals.retractions else None),
        ("Rejected rows", _big(rejected), f"{counted(len(live.held), 'file')} in quarantine"),
        ("Sinks behind", whole(sum(sink["batches_left"] > 0 for sink in live.sinks)), f"by {whole(behind)} batches")
        if live.sinks
        else ("Sinks", "–", "nothing delivered yet"),
    ]


def _waiting(lag: dict[str, Any], live: Live) -> str:
    if not lag.get("files"):
        return "all are matched" if live.course.totals.batches else "none"
    oldest = lag.get("oldest_ts") or lag.get("oldest_at")
    since = f", oldest {_ago(dt.datetime.fromisoformat(oldest), live.at)}" if oldest else ""
    return f"in {counted(lag['files'], 'file')}{since}"


def _ago(value: dt.datetime | None, now: dt.datetime) -> str:
    """How long before now, in one or two units."""
    if value is None:
        return "–"
    seconds = (now - value).total_seconds()
    for size, unit in ((86_400 * 2, 86_400), (3_600 * 2, 3_600), (60 * 2, 60), (0, 1)):
        if abs(seconds) >= size:
            name = {86_400: "days", 3_600: "h", 60: "min", 1: "s"}[unit]
            return f"{abs(seconds) / unit:,.0f} {name} {'ago' if seconds >= 0 else 'ahead'}"
    return "now"


def _big(value: int) -> str:
    return whole(value) if value < 10_000_000 else short(value)


def _sections(live: Live) -> Markup:
    return joined(
        section("look-up", "Look up", look_up(), _latest(live)),
        section("map", "Map of the plan", map_note(live.plan), _map(live)),
        section("balance", "Balance of the workers", _balance(live), balance_section(live.plan, live.loads)),
        section("throughput", "Throughput", _throughput(live.course.batches), batches_section(live.course)),
        section("migrations", "Migrations", _migrations(live)),
        section("rejects", "Rejected rows", _rejects(live)),
        section("quarantine", "Quarantine", _held(live)),
        section("delivery", "Delivery", _delivery(live)),
    )


def look_up(object_id: str = "", subscription_id: str = "") -> Markup:
    """The forms that lead to one subscription, and to one object with or without a subscription."""
    one = _form("subscription", "Subscription", _field("id", "Subscription id", subscription_id, "s"))
    two = _form(
        "object",
        "Object",
        _field("id", "Object id", object_id, "o"),
        _field("subscription", "Why it matched this subscription, or not (optional)", subscription_id, "w", False),
    )
    return element("div", one, two, class_="look-up")


def _form(page: str, title: str, *fields: Markup) -> Markup:
    button = element("button", "Show", type="submit", aria_label=f"Show the {title.lower()}")
    return element("form", fields, button, action=page, method="get", role="search", aria_label=title)


def _field(name: str, label: str, value: str, mark: str, required: bool = True) -> Markup:
    box = element(
        "input", type="text", id=f"look-{mark}", name=name, value=value, required=required, maxlength=1_000,
        autocomplete="off", spellcheck="false",
    )  # fmt: skip
    return element("p", element("label", label, for_=f"look-{mark}"), box)


def _latest(live: Live) -> Markup | None:
    if not live.matches:
        return None
    items = [
        element("li", link("object", row["object_id"], id=row["object_id"]), f" {whole(row['pairs'])}")
        for row in live.matches
    ]
    title = "Some objects of the latest batch, and how many subscriptions each matched:"
    return joined(element("p", title, class_="note"), element("ul", items, class_="latest"))


def _map(live: Live) -> Markup:
    drawing, _ = draw_map(live.plan, live.loads, live.points, [])
    dots = [("dot objects-dot", f"{counted(len(live.points), 'object')} (a sample)")]
    dots.append(("dot city-dot", "cities, as the base map"))
    tools = map_tools([("plan", "Plan"), ("objects", "Objects")])
    return element("div", tools, drawing, legend(live.plan, dots), class_="card")


def _balance(live: Live) -> Markup | None:
    if not live.balance:
        return None
    version = {batch.batch_id: batch.plan_version for batch in live.course.batches}
    numbers = list(live.balance)
    changes = [b for a, b in zip(numbers, numbers[1:]) if version.get(a) != version.get(b)]
    bars = [(batch, value, f"{value:.2f}") for batch, value in live.balance.items()]
    caption = "Greatest CPU time of a worker over the mean, of each batch; 1 is even. A dashed line: the plan changed."
    return bar_plot(caption, "Greatest over mean", bars, changes, least=1.0)


def _throughput(batches: tuple[BatchView, ...]) -> Markup | None:
    rates = [(b.batch_id, b.objects / b.duration) for b in batches if b.duration > 0]
    if not any(rate for _, rate in rates):
        return None
    bars = [(batch, rate, f"{short(rate)} objects/s") for batch, rate in rates]
    return bar_plot("Objects per second of each batch", "Objects per second", bars)


def _migrations(live: Live) -> Markup:
    if not live.migrations:
        return element("p", "No plan was migrated to yet: see pststream balance local.", class_="empty")
    return element(
        "div", [_migration(rows, rows is live.migrations[0]) for rows in live.migrations], class_="reasons moves"
    )


def _migration(rows: list[dict[str, Any]], first: bool) -> Markup:
    one = rows[0]
    before, after = (np.array(one[f"load_{when}"] or [0.0]) for when in ("before", "after"))
    head = element(
        "summary",
        element("span", f"Plan {one['plan_version_before']} to {one['plan_version']}", class_="reason"),
        element("span", f"{one['kind']}, {moment(one['at'])} UTC", class_="kind"),
        element("span", f"{_even(before)} → {_even(after)}", class_="value"),
    )
    why = ", ".join(dict.fromkeys(row["reason"] for row in rows))
    facts = (
        f"By {why}: {counted(len(rows), 'move')}, {whole(one['subscriptions'])} rows of the index,"
        f" {short(one['bytes'])} bytes; expected gain {percent(one['expected_gain'])} of the greatest load."
        " The figures above: greatest load over the mean, predicted, before and after."
    )
    same = len(before) == len(after)
    label = f"Load of each worker, plan {one['plan_version_before']} and {one['plan_version']}"
    told = loads_table(before.tolist(), after.tolist(), label) if same else None
    inside = element("div", element("p", facts, class_="note"), told, class_="inside")
    return element("details", head, inside, open=first)


def _even(loads: np.ndarray) -> str:
    return f"{loads.max() / loads.mean():.3g}" if loads.mean() > 0 else "–"


def _rejects(live: Live) -> Markup:
    totals = live.course.totals
    note = (
        f"{whole(totals.rejected_objects)} objects and {whole(totals.rejected_requests)} requests in all. Counted below"
        f" are {LATEST_REJECTS} of the latest at most; pststream rejects lists all."
    )
    return joined(element("p", note, class_="note"), rejects_section(live.rejects))


def _held(live: Live) -> Markup:
    if not live.held:
        return element("p", "No file is held.", class_="empty")
    rows = [
        [
            row["hold_id"],
            element("span", PurePath(row["path"]).name, title=row["path"]),
            row["kind"],
            element("ul", [element("li", reason) for reason in row["reasons"] or ()]),
            moment(row["at"]),
        ]
        for row in reversed(live.held[-_HELD:])
    ]
    note = f"{counted(len(live.held), 'file')} held. Release or discard: the DAG quarantine, or pststream quarantine."
    table = scrolled("Files in quarantine", ["Number", "File", "Kind", "Why", "Held at (UTC)"], rows)
    return joined(element("p", note, class_="note"), table)


def _delivery(live: Live) -> Markup:
    if not live.sinks:
        return element("p", "Nothing was delivered yet: see pststream deliver.", class_="empty")
    rows = [
        [
            sink["sink"],
            element("span", sink["state"], class_=f"state {_TONES.get(sink['state'], 'bad')}"),
            sink["reason"] or "–",
            whole(sink["batches_left"]),
            whole(sink["delivered"]),
            whole(sink["failures"]),
            whole(sink["dead"]),
            str(sink["at"] or "–")[:19].replace("T", " "),
        ]
        for sink in live.sinks
    ]
    heads = ["Sink", "State", "Why", "Batches behind", "Delivered", "Tries failed", "Dead letters", "Noted at (UTC)"]
    return scrolled("Delivery to each sink", heads, rows)
