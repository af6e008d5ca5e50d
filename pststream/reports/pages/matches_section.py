"""Matches and rejects as tables."""

import re
from pathlib import PurePath

import numpy as np

from pststream.format_values import counted, moment, whole
from pststream.generator.places import nearest_cities
from pststream.reports.plots.html import Markup, element, joined
from pststream.reports.plots.plan_map import region_path
from pststream.reports.plots.projection import Projection
from pststream.reports.reading.samples import MatchView, RejectView
from pststream.text.words import tokenize

_SPACES = re.compile(r"(\s+)")
_OPERATORS = ("AND", "OR")
_MOST_RAW = 160
_MOST_PAYLOAD = 4


def matches_section(matches: list[MatchView], total: int, projection: Projection) -> Markup:
    """The sampled pairs; each row carries its region for the map."""
    if not matches:
        return element("p", "No matches to show yet.", class_="empty")
    near = nearest_cities(np.array([m.lon for m in matches]), np.array([m.lat for m in matches]))
    rows = [_row(i, match, near[i], projection) for i, match in enumerate(matches)]
    head = element("tr", [element("th", title, scope="col") for title in ("Text", "Subscription", "Where and when")])
    table = element("table", element("thead", head), element("tbody", rows), class_="pairs", id="pairs")
    search = element(
        "label", "Find in these ", element("input", type="search", id="find", autocomplete="off"), class_="find"
    )
    note = f"A sample: {counted(len(matches), 'pair')} of {whole(total)}. Marked: words that the subscription asks for."
    scroll = element("div", table, class_="scroll tall", tabindex=0, role="region", aria_label="Sample of matches")
    return joined(element("div", element("p", note, class_="note"), search, class_="row"), scroll)


def _row(number: int, match: MatchView, near: tuple[str, float], projection: Projection) -> Markup:
    city, away = near
    place = f"{city}" if away < 25 else f"{away:,.0f} km from {city}"
    payload = dict(match.payload)
    title = payload.pop("title", None)
    title = title if isinstance(title, str) and title.strip() else None
    extra = [f"{name}: {value}"[:120] for name, value in list(payload.items())[:_MOST_PAYLOAD]]
    name = element("span", match.subscription_id, class_="quiet")
    spot = {"data_x": f"{float(projection.x(match.lon)):.2f}", "data_y": f"{float(projection.y(match.lat)):.2f}"}
    return element(
        "tr",
        element("td", element("p", mark_words(match.text, match.keywords), class_="text", dir="auto"), class_="what"),
        element(
            "td",
            element("p", title or match.keywords, class_="title", dir="auto"),
            element("p", element("code", match.keywords), dir="auto") if title else None,
            element("p", joined(*[part for e in extra for part in (e, " · ")]), name, class_="quiet"),
        ),
        element(
            "td",
            element("p", place),
            element("p", moment(match.ts), class_="quiet"),
            element("button", "Show on map", type="button", class_="show", data_row=number),
        ),
        id=f"pair-{number}",
        data_region=region_path(match, projection),
        **spot,
    )


def mark_words(text: str, keywords: str) -> Markup:
    """The text, with the words that the expression names marked; words as the tokenizer cuts them."""
    bare = keywords.replace("(", " ").replace(")", " ").split()
    asked = {word for part in bare if part not in _OPERATORS for word in tokenize(part)}
    parts: list[Markup | str] = []
    for part in _SPACES.split(text):
        hit = not asked.isdisjoint(tokenize(part))
        parts.append(element("mark", part) if hit else part)
    return joined(*parts)


def rejects_section(rejects: list[RejectView]) -> Markup:
    """Rejected rows by reason, with examples."""
    if not rejects:
        return element("p", "No row was rejected.", class_="empty")
    most = max(view.count for view in rejects)
    return element("div", [_reason(view, most) for view in rejects], class_="reasons")


def _reason(view: RejectView, most: int) -> Markup:
    bar = element("span", class_="bar", style=f"--part:{100 * view.count / most:.1f}%", aria_hidden="true")
    head = element(
        "summary",
        element("span", view.reason.replace("_", " "), class_="reason"),
        element("span", view.kind, class_="kind"),
        element("span", whole(view.count), class_="value"),
        bar,
    )
    rows = []
    for example in view.examples:
        raw = example["raw"]
        value = raw if raw is None or len(raw) <= _MOST_RAW else raw[:_MOST_RAW] + " …"
        rows.append(
            element(
                "tr",
                element("td", f"{PurePath(example['file'] or '').name}, row {example['row']}", title=example["file"]),
                element("td", example["field"] or "row"),
                element("td", element("code", value, dir="auto") if value else "empty"),
                element("td", example["detail"]),
            )
        )
    titles = [element("th", title, scope="col") for title in ("File", "Field", "Value", "Why")]
    table = element("table", element("thead", element("tr", titles)), element("tbody", rows))
    scroll = element("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"Examples: {view.reason}")
    return element("details", head, scroll, open=len(view.examples) > 0 and view.count == most)
