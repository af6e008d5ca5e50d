"""Two pages of the plugin: one subscription, and one object with the explanation of a pair."""

from typing import Any

import numpy as np

from pststream.domain.region import Region
from pststream.format_values import counted, moment, whole
from pststream.kinds.contract import QueryKind, StoredObject
from pststream.kinds.registry import stored_kind
from pststream.reports.commands.lookups import SHOWN, Met, ObjectFile, SubscriptionFile
from pststream.reports.pages.airflow_page import link, look_up, scrolled, section
from pststream.reports.pages.html_document import whole_page
from pststream.reports.plots.html import Child, Markup, element, joined
from pststream.reports.plots.plan_map import draw_region, map_tools
from pststream.reports.reading.plan_view import PlanView

_MOST_TEXT = 2_000
_MOST_LIVES = 20


def page(title: str, subtitle: str, *sections: Markup | None, form: Markup | None = None) -> str:
    """A page beside the main one."""
    back = element("nav", element("a", "← All of PSTStream", href="./"), aria_label="Back")
    return whole_page(
        f"PSTStream: {title}",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element("header", back, element("h1", title), element("p", subtitle, class_="quiet")),
        element("main", *sections, section("look-up", "Look up", form or look_up()), id="content"),
        element("footer", "This page only reads, and loads nothing from elsewhere."),
        forms=True,
    )


def message_page(title: str, message: str, advice: str, rejects: list[dict[str, Any]] | None = None) -> str:
    """A page that says what is wrong and what to do."""
    told = _rejects(rejects) if rejects else None
    return page(title, "", element("section", element("p", message), element("p", advice, class_="why")), told)


def subscription_page(subscription_id: str, found: SubscriptionFile, view: PlanView | None) -> str:
    """A subscription that was accepted."""
    region = found.lives[0].query.region
    note = f"The latest pairs of this id; {counted(found.looked_at, 'pair')} of the latest batches were looked at"
    note += "." if found.whole else ", not all that there are: pststream export matches has them all."
    rows = [[link("object", met.other, id=met.other, subscription=subscription_id), *_where(met)] for met in found.met]
    matched = scrolled("Objects that it matched", ["Object", "Time (UTC)", "Batch", "Worker"], rows) if rows else None
    return page(
        "Subscription",
        subscription_id,
        section("life", "What it asks for", _lives(found)),
        section("map", "Region", _map(draw_region(view, region, np.empty((0, 2))))) if region else None,
        section("matches", "Matches", element("p", note, class_="note"), matched or _none("No match was found.")),
        _rejects(found.rejects),
        form=look_up(subscription_id=subscription_id),
    )


def object_page(
    object_id: str, found: ObjectFile, view: PlanView | None, explained: dict[str, Any] | None, subscription_id: str
) -> str:
    """An object that was accepted; `explained`: why it matched a subscription, or did not."""
    rows = [
        [link("subscription", met.other, id=met.other), element("code", met.keywords[:300], dir="auto"), *_where(met),
         link("object", "Why", id=object_id, subscription=met.other)]
        for met in found.met
    ]  # fmt: skip
    heads = ["Subscription", "Keywords", "Time (UTC)", "Batch", "Worker", "Explanation"]
    first = f"; the first {SHOWN} are listed." if found.pairs > SHOWN else "."
    note = counted(found.pairs, "match", "matches") + first
    region = _region_of(explained)
    points = np.array([(thing.lon, thing.lat) for thing in found.things[:1]])
    return page(
        "Object",
        object_id,
        section("why", "Why it matched, or not", explanation(explained)) if explained else None,
        section("what", "What it is", *[_thing(thing, found.matched_to) for thing in found.things]),
        section("map", "Where", _map(draw_region(view, region or _around(found.things[0]), points))),
        section(
            "matches",
            "Matches",
            element("p", note, class_="note"),
            scrolled("Subscriptions that it matched", heads, rows) if rows else None,
        ),
        _rejects(found.rejects),
        form=look_up(object_id=object_id, subscription_id=subscription_id),
    )


def explanation(document: dict[str, Any]) -> Markup:
    """What `pststream explain` says, the best pair first."""
    state = document["state"]
    tone = {"matched": "good", "not matched": "bad"}.get(state, "wait")
    head = element("p", element("span", state, class_=f"state {tone}"), f" {document['reason']}.", class_="why")
    problem = document["problem"]
    wrong = (
        element("p", f"The tables disagree: {problem}. Keep the home as it is, and report it.", class_="problems")
        if problem
        else None
    )
    return element("div", head, wrong, *[_pair(pair) for pair in document["pairs"][:1]], class_="card inside")


def _pair(pair: dict[str, Any]) -> Markup:
    posting, life = pair["posting"], pair["subscription"]
    facts = _query_facts(stored_kind(life["kind"]), life)
    until = f"until {life['end_at']}" if life["end_at"] else "for ever"
    facts.append(("Valid", f"from {life['created_at']} {until}"))
    if posting:
        clause = " OR ".join(posting["clause"])
        facts += [
            ("Posting", joined("word ", element("code", posting["word"]), " of the clause ", element("code", clause))),
            ("Cell of the index", f"level {posting['level']}, column {posting['column']}, row {posting['row']}"),
            ("Served by", f"worker {posting['worker']}, unit {posting['unit']} of plan {posting['plan_version']}"),
        ]
    if written := pair["written_by"]:
        facts.append(("Written by", f"batch {written['batch_id']}, worker {written['worker']}"))
    if pair["taken_back_by"] is not None:
        facts.append(("Taken back by", f"batch {pair['taken_back_by']}"))
    return _facts(facts)


def _facts(facts: list[tuple[str, Child]]) -> Markup:
    return element("dl", [(element("dt", name), element("dd", value)) for name, value in facts], class_="facts")


def _lives(found: SubscriptionFile) -> Markup:
    parts = []
    for life in found.lives[:_MOST_LIVES]:
        validity = life.validity()
        until = f"until {moment(validity.end_at)} UTC, by {validity.ended_by}" if validity.end_at else "for ever"
        waiting = "no batch has taken it yet" if life.key > found.applied else "in the index"
        facts: list[tuple[str, Child]] = [
            *_query_facts(life.kind, life.query.describe()),
            ("Valid", f"from {moment(life.created_at)} UTC {until}"),
            ("State", waiting),
            ("Key", str(life.key)),
        ]
        parts.append(element("div", _facts(facts), class_="card inside"))
    more = f"Inserted {counted(len(found.lives), 'time')}; the latest come first."
    return joined(element("p", more, class_="note") if len(found.lives) > 1 else None, parts)


def _query_facts(kind: QueryKind, description: dict[str, Any]) -> list[tuple[str, Child]]:
    """What a subscription asks for, as its kind describes it."""
    texts = kind.facts(description)
    return [(label, element("code", text[:_MOST_TEXT], dir="auto")) for label, text in texts.items()]


def _thing(thing: StoredObject, matched_to: int) -> Markup:
    text = thing.text if len(thing.text) <= _MOST_TEXT else thing.text[:_MOST_TEXT] + " …"
    state = "waits for a batch" if thing.key > matched_to else "matched against all subscriptions"
    facts: list[tuple[str, Child]] = [
        ("Time", f"{moment(thing.ts)} UTC"),
        ("Place", f"{thing.lon:.9g}, {thing.lat:.9g} (longitude, latitude)"),
        ("State", state),
        ("Key", str(thing.key)),
    ]
    told = element("p", text or "no text", class_="text", dir="auto")
    return element("div", told, _facts(facts), class_="card inside")


def _where(met: Met) -> list[str]:
    return [moment(met.ts), whole(met.batch_id), whole(met.worker)]


def _map(drawing: Markup) -> Markup:
    return element("div", map_tools([("plan", "Plan")]), drawing, class_="card")


def _region_of(explained: dict[str, Any] | None) -> Region | None:
    """The region of the explained subscription, if it has one."""
    if not explained or not explained["pairs"]:
        return None
    told = explained["pairs"][0]["subscription"].get("region")
    if told is None:
        return None
    if "circle" in told:
        circle = told["circle"]
        lon, lat, radius = circle["lon"], circle["lat"], circle["radius_m"]
        away = min(radius / 111_195, 80.0)
        return Region(((lon - away, max(lat - away, -90.0), lon + away, min(lat + away, 90.0)),), (lon, lat, radius))
    west, south, east, north = told["bbox"]
    if west > east:
        return Region(((west, south, 180.0, north), (-180.0, south, east, north)))
    return Region(((west, south, east, north),))


def _around(thing: StoredObject) -> Region:
    """Some degrees around an object to look at; as a circle without radius it is drawn as nothing."""
    box = (max(thing.lon - 8, -180.0), max(thing.lat - 5, -90.0), min(thing.lon + 8, 180.0), min(thing.lat + 5, 90.0))
    return Region((box,), (thing.lon, thing.lat, 0.0))


def _rejects(rejects: list[dict[str, Any]]) -> Markup | None:
    if not rejects:
        return None
    rows = [[row["file"], whole(row["row"]), row["field"] or "row", row["reason"], row["detail"]] for row in rejects]
    table = scrolled("Files and reasons of rejected rows", ["File", "Row", "Field", "Reason", "Why"], rows)
    return section("rejects", "Rejected rows that tell this id", table)


def _none(text: str) -> Markup:
    return element("p", text, class_="empty")
