"""Why an object did, or did not, reach a subscription; and whether the tables agree with the rule."""

from typing import Any

from pststream import names
from pststream.errors import UsageError
from pststream.escape_text import escape_controls
from pststream.kinds.contract import FailedCondition, StoredObject, StoredSubscription
from pststream.kinds.registry import stored_kind
from pststream.ledgers.history import LedgerHistory
from pststream.reports.commands.explain_route import Postings, find_stored_fault
from pststream.reports.commands.explain_rows import MOST, lives_of, rejected_rows, things_of, written_pairs
from pststream.reports.reading.table_reader import AnyHome, Reader
from pststream.utc_times import iso

MATCHED, PENDING, NOT_MATCHED = "matched", "pending", "not matched"
OBJECT_UNKNOWN, SUBSCRIPTION_UNKNOWN = "object_unknown", "subscription_unknown"
MOST_PAIRS = 20
_SHOWN_TEXT = 300
_INTERNAL = "This is an internal error: keep the home as it is, and report it with this explanation."


def explain(home: AnyHome, object_id: str, subscription_id: str) -> dict[str, Any]:
    """Whether the two met, by which posting, or the first condition that fails; for every object and insertion of the
    two ids, the best pair first.

    Keys of the result: object_id, subscription_id; state (matched, pending, not matched), condition (None,
    object_unknown, subscription_unknown, or a condition of the kind of query) and reason of the best pair; objects,
    subscriptions: how many of each id; pairs: at most MOST_PAIRS, each with its posting; problem: where the tables
    disagree with the rule, in a sentence; rejects: rows that were refused and tell one of the ids.

    Judged by words, boxes and distances, apart from the kernels.
    """
    reader = Reader(home)
    ledgers = LedgerHistory(reader)
    for name in (names.MATCHES, names.OBJECTS, names.REQUESTS):
        reader.dataset(name)
    things, lives = things_of(reader, object_id), lives_of(reader, subscription_id)
    written = written_pairs(reader, things, lives)
    examiner = _Examiner(reader, ledgers)
    judged = [examiner.judge(thing, life, written.get((thing.key, life.key), [])) for thing in things for life in lives]
    pairs = sorted(judged, key=_rank)[:MOST_PAIRS]
    rejects = {
        "objects": rejected_rows(reader, "objects", object_id),
        "requests": rejected_rows(reader, "requests", subscription_id),
    }
    best = pairs[0] if pairs else _unknown(object_id, subscription_id, bool(things), rejects)
    told = [_plain(examiner.with_posting(pair)) for pair in pairs]
    return {
        "object_id": object_id,
        "subscription_id": subscription_id,
        **{name: best[name] for name in ("state", "condition", "reason")},
        "problem": next((pair["problem"] for pair in told if pair["problem"]), None),
        "objects": len(things),
        "subscriptions": len(lives),
        "pairs": told,
        "rejects": rejects,
    }


class _Examiner:
    """Judges pairs of one home as it stands."""

    def __init__(self, reader: Reader, ledgers: LedgerHistory) -> None:
        self._reader = reader
        self._ledgers = ledgers
        self._postings: dict[int, Postings | None] = {}
        plans = reader.rows(names.PLANS, ("plan_version", "retiring_version", "retiring_to"))
        self._plans = {row["plan_version"]: row for row in plans}

    def judge(self, thing: StoredObject, life: StoredSubscription, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """What holds for a pair; `rows` are those of `matches` that tell of it."""
        found = [row for row in rows if not row["retracted"]]
        taken_back = [row for row in rows if row["retracted"]]
        pair: dict[str, Any] = {
            "state": MATCHED if found and not taken_back else NOT_MATCHED, "condition": None, "problem": None,
            "object": thing, "subscription": life, "posting": None, "found": found, "taken_back": taken_back,
        }  # fmt: skip
        if not life.query.is_readable():
            return {
                **pair,
                "reason": "the stored keywords cannot be read",
                "problem": "unreadable keywords were accepted",
            }
        failure = life.query.first_failure(thing, life.validity())
        applied = life.query.first_failure(thing, life.validity(self._ledgers.requests_applied))
        expected = applied is None and not self._waiting(thing, life)
        if expected != (pair["state"] == MATCHED):
            pair["problem"] = _disagreement(expected, found, taken_back)
        elif failure is None and pair["state"] == NOT_MATCHED:
            pair["state"] = PENDING
        pair["condition"] = failure.condition if failure else None
        return {**pair, "reason": self._reason(thing, life, pair, failure)}

    def _waiting(self, thing: StoredObject, life: StoredSubscription) -> list[str]:
        """Which of the two no batch has taken yet."""
        waiting = ["the object"] if thing.key > self._ledgers.objects_matched else []
        return waiting + (["the subscription"] if life.key > self._ledgers.requests_applied else [])

    def _reason(
        self, thing: StoredObject, life: StoredSubscription, pair: dict[str, Any], failure: FailedCondition | None
    ) -> str:
        if pair["problem"]:
            return failure.reason if failure else "the object satisfies the subscription"
        if pair["state"] == PENDING:
            waiting = self._waiting(thing, life)
            wait = f"{' and '.join(waiting)} {'wait' if len(waiting) > 1 else 'waits'} in the log"
            return f"the object satisfies the subscription; not yet matched: {wait} (pststream match)"
        if failure is None:
            return f"the object satisfies the subscription; batch {pair['found'][0]['batch_id']} wrote the pair"
        if pair["state"] == MATCHED:
            so_far = f"batch {pair['found'][0]['batch_id']} wrote the pair, and the next batch takes it back"
            return f"{failure.reason}; the deletion waits in the log: {so_far} (pststream match)"
        if pair["taken_back"]:
            back = pair["taken_back"][0]["batch_id"]
            return f"{failure.reason}; batch {pair['found'][0]['batch_id']} wrote the pair, batch {back} took it back"
        return failure.reason

    def with_posting(self, pair: dict[str, Any]) -> dict[str, Any]:
        """The pair with its posting, where it satisfies the rule; problems that show up on the way are told."""
        if pair["condition"] is not None or pair["problem"] == "unreadable keywords were accepted":
            return pair
        thing, life, found = pair["object"], pair["subscription"], pair["found"]
        problem = pair["problem"] or find_stored_fault(thing, life)
        if problem is None and len(found) > 1:
            problem = f"the pair was written {len(found)} times: by batches {[row['batch_id'] for row in found]}"
        version = found[0]["plan_version"] if found else max(self._plans, default=0)
        postings = self._postings_of(self._serving(version, life.key))
        if postings is None:
            return {**pair, "problem": problem}
        posting = None if find_stored_fault(thing, life) else postings.of(thing, life)
        if posting is None:
            problem = problem or "no piece of the subscription contains the object, though its region does"
        elif found and found[0]["worker"] != posting["worker"]:
            problem = problem or f"worker {found[0]['worker']} wrote the pair, but worker {posting['worker']} serves it"
        return {**pair, "posting": posting, "problem": problem}

    def _serving(self, version: int, key: int) -> int:
        """The plan that serves a subscription while plan `version` is in force: it, or the one that it retires."""
        plan = self._plans.get(version)
        if plan is None or plan["retiring_version"] is None or key > plan["retiring_to"]:
            return version
        return int(plan["retiring_version"])

    def _postings_of(self, version: int) -> Postings | None:
        if version not in self._postings:
            try:
                self._postings[version] = Postings(self._reader, version)
            except UsageError:
                self._postings[version] = None
        return self._postings[version]


def _disagreement(expected: bool, found: list[dict[str, Any]], taken_back: list[dict[str, Any]]) -> str:
    if expected and taken_back:
        return f"batch {taken_back[0]['batch_id']} took the pair back, though nothing ended the subscription before it"
    if expected:
        return "no batch wrote the pair, though both were taken"
    return f"batch {found[0]['batch_id']} wrote the pair, though the object does not satisfy the subscription"


def _rank(pair: dict[str, Any]) -> tuple[int, int, int, int]:
    """Problems first, then matches, then what waits, then what failed last; the latest of equal ones first."""
    order = 0 if pair["problem"] else 1 + (MATCHED, PENDING, NOT_MATCHED).index(pair["state"])
    conditions = pair["subscription"].kind.conditions
    passed = conditions.index(pair["condition"]) if pair["condition"] else len(conditions)
    return order, -passed, -pair["subscription"].key, -pair["object"].key


def _unknown(object_id: str, subscription_id: str, object_known: bool, rejects: dict[str, Any]) -> dict[str, Any]:
    if not object_known:
        what, name, kind, condition = "object", object_id, "objects", OBJECT_UNKNOWN
    else:
        what, name, kind, condition = "subscription", subscription_id, "requests", SUBSCRIPTION_UNKNOWN
    if rejects[kind]:
        row = rejects[kind][0]
        why = f"a row that tells this id was rejected: {_told_reject(row)}"
    else:
        why = "if a file has it, its row was rejected for another field: pststream rejects lists them"
    return {"state": NOT_MATCHED, "condition": condition, "reason": f"no {what} {name!r} was accepted; {why}"}


def _told_reject(row: dict[str, Any]) -> str:
    return f"{row['file']}, row {row['row']}: {row['reason']}: {row['detail']}"


def _plain(pair: dict[str, Any]) -> dict[str, Any]:
    """The pair as plain values."""
    thing, life, found, back = (pair[name] for name in ("object", "subscription", "found", "taken_back"))
    return {
        **{name: pair[name] for name in ("state", "condition", "reason", "problem", "posting")},
        "object": _told_thing(thing),
        "subscription": _told_life(life),
        "written_by": {k: found[0][k] for k in ("batch_id", "plan_version", "worker")} if found else None,
        "taken_back_by": back[0]["batch_id"] if back else None,
    }


def _told_thing(thing: StoredObject) -> dict[str, Any]:
    text = thing.text if len(thing.text) <= _SHOWN_TEXT else thing.text[: _SHOWN_TEXT - 1] + "…"
    return {"object_key": thing.key, "ts": iso(thing.ts), "lon": thing.lon, "lat": thing.lat, "text": text}


def _told_life(life: StoredSubscription) -> dict[str, Any]:
    validity = life.validity()
    return {
        "subscription_key": life.key,
        "kind": life.kind.name,
        **life.query.describe(),
        "created_at": iso(validity.created_at),
        "end_at": iso(validity.end_at),
        "ended_by": validity.ended_by or None,
    }


def render_explain(document: dict[str, Any]) -> str:
    """The explanation for a person to read."""
    state, two = document["state"], f"object {document['object_id']!r} and subscription {document['subscription_id']!r}"
    lines = [f"{state.upper()}: {two}"]
    if not document["pairs"]:
        lines.append(f"  {escape_controls(document['reason'])}")
    for place, pair in enumerate(document["pairs"]):
        if place == 1:
            total = document["objects"] * document["subscriptions"]
            lines.append(f"\n{total} pairs have these ids; the others:")
        lines += _lines_of(pair, place > 0)
    if MOST in (document["objects"], document["subscriptions"]):
        lines.append(f"Only the latest {MOST} of an id are looked at.")
    others = [row for rows in document["rejects"].values() for row in rows]
    if others and document["pairs"]:
        lines += [
            "\nrejected rows that tell one of the ids:",
            *(f"  {escape_controls(_told_reject(row))}" for row in others),
        ]
    return "\n".join(lines)


def _lines_of(pair: dict[str, Any], brief: bool) -> list[str]:
    thing, life, posting = pair["object"], pair["subscription"], pair["posting"]
    lines = [f"  {pair['state'] + ': ' if brief else ''}{pair['reason']}"]
    if pair["problem"]:
        lines.append(f"  THE TABLES DISAGREE: {pair['problem']}. {_INTERNAL}")
    if posting:
        lines.append(
            f"  posting       word {posting['word']!r} of the clause [{' OR '.join(posting['clause'])}] in cell"
            f" {posting['cell']} (level {posting['level']}, column {posting['column']}, row {posting['row']})"
        )
        serves = "found it" if pair["written_by"] else "serves it"
        unit = f"unit {posting['unit']} of plan {posting['plan_version']}"
        lines.append(f"  served by     worker {posting['worker']} {serves}, {unit}")
    lines.append(
        f"  object        {thing['ts']} at {thing['lon']:.9g}, {thing['lat']:.9g}: {escape_controls(thing['text'])}"
    )
    until = f"until {life['end_at']} ({life['ended_by']})" if life["end_at"] else "for ever"
    query = "; ".join(map(escape_controls, stored_kind(life["kind"]).facts(life).values()))
    lines.append(f"  subscription  {query}; from {life['created_at']} {until}")
    return lines
