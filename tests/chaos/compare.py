"""Compare the result of a chaos run with the result computed from the files alone."""

import hashlib
import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pststream
from pststream.state.home import Home as Tables
from pststream.tables.log_events import SET_ASIDE
from tests.chaos.environment import ChaosEnvironment, done_files, received_messages
from tests.oracles import twin_fast
from tests.oracles.delivery import expected_messages
from tests.oracles.questions import LoggedObject, answer
from tests.oracles.standing_log import expected_rows
from tests.oracles.twin import Erasure, Outcome, TermStatistics, Withdrawal
from tests.oracles.twin_rows import LogFile, rows_of, time_us
from tests.standing_worlds import STANDING_ERRORS, count_standing
from tests.unit.search.worlds import some_question

ERRORS = (
    *("files_lost", "files_doubled", "rows_lost", "lost", "doubled", "wrong", "view_differs"),
    *("not_withdrawn", "not_set_aside", "set_aside_wrongly", "rounds_too_many", "wrong_answers"),
    *STANDING_ERRORS,
)
QUESTIONS = 60
MOST_ROUNDS = 3
"""Runs that a good file may wait beside files that kill their readers."""

DELIVERY_ERRORS = ("lost", "unknown", "changed")


def compare(chaos: ChaosEnvironment) -> dict[str, Any]:
    """Count files, rows and matches, and those that are lost, doubled or wrong.

    The ledger gives the order in which files were ingested; the twin computes the expected result from it.
    """
    tables, done = Tables(chaos.home.path), done_files(chaos)
    rows = [row for row in done if row["withdrawal_id"] is None and row["statistics_version"] is None]
    # Empty files of both kinds have the same bytes.
    taken = [(row["kind"], row["sha256"]) for row in rows]
    given = [*chaos.given, *chaos.others, *(("objects", path) for _, path in chaos.ahead)]
    landed = {(kind, hashlib.sha256(path.read_bytes()).hexdigest()): path for kind, path in given}
    withdrawals = iter(chaos.ahead)
    of_objects = [row for row in done if row["kind"] == "objects"]
    same_round = {row["file_seq"] for before, row in pairwise(of_objects) if _is_same_round(before, row)}

    paths = {row["file_seq"]: landed[row["kind"], row["sha256"]] for row in rows}
    set_aside = list[str]()

    def entry(row: dict[str, Any]) -> LogFile | Withdrawal | TermStatistics:
        if row["statistics_version"] is not None:
            return TermStatistics()
        if row["withdrawal_id"] is None:
            return LogFile(row["kind"], paths[row["file_seq"]], same_round=row["file_seq"] in same_round)
        key = json.loads(row["options"]).get(SET_ASIDE)
        if key is None:
            return Withdrawal(frozenset(next(withdrawals)[:1]))
        set_aside.append(_id_of_row(row["kind"], paths[key >> 32], key & 0xFFFFFFFF))
        ids = frozenset(set_aside[-1:])
        return Withdrawal(ids) if row["kind"] == "objects" else Withdrawal(subscription_ids=ids)

    log: list[tuple[int, Any]] = [(row["file_seq"], entry(row)) for row in done]
    log += [(one.after, Erasure(frozenset({one.name}), frozenset({one.name}))) for one in chaos.erased]
    log.sort(key=lambda one: one[0])  # an erasure follows the file that it names
    outcome = twin_fast.outcome_of([one for _, one in log], chaos.world.lateness_seconds)
    exported, viewed = Counter(chaos.home.exported()), _viewed(chaos)
    return {
        "files": len(landed),
        "files_lost": len(landed.keys() - set(taken)),
        "files_doubled": len(taken) - len(set(taken)),
        "rows": sum(outcome.rows.values()),
        "rows_lost": sum(outcome.rows.values()) - sum(row["accepted"] + row["rejected"] for row in rows),
        "matches": len(outcome.matches),
        "lost": len(outcome.matches - set(exported)),
        "doubled": exported.total() - len(exported),
        "wrong": len(set(exported) - outcome.matches),
        "view_differs": ((viewed - exported) + (exported - viewed)).total(),
        "not_withdrawn": len(list(withdrawals)),
        "set_aside": len(set_aside),
        "not_set_aside": len(set(chaos.killing) - set(set_aside)),
        "set_aside_wrongly": len(set(set_aside) - set(chaos.killing)),
        "erased": len(chaos.erased),
        "most_rounds": chaos.most_rounds,
        "rounds_too_many": max(0, chaos.most_rounds - MOST_ROUNDS),
        **_count_answers(chaos, outcome),
        **count_standing(chaos.home, expected_rows(outcome)),
        "deliveries": {
            sink: _delivered(chaos, tables, messages) for sink, messages in received_messages(chaos).items()
        },
    }


def _id_of_row(kind: str, path: Path, number: int) -> str:
    """Return the id in a row of an input file, numbered from 1."""
    row = next(row for n, row in rows_of(path) if n == number)
    return str((row or {})["object_id" if kind == "objects" else "subscription_id"])


def _is_same_round(before: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether the ledger says that one run has found two files of objects."""
    first, second = json.loads(before["options"]), json.loads(row["options"])
    if "judged_by" not in first or first["judged_by"] != second.get("judged_by"):
        return False
    return before["ingest_id"] == row["ingest_id"] or first.get("round_goes_on", False)


def _count_answers(chaos: ChaosEnvironment, outcome: Outcome) -> dict[str, int]:
    """Ask random questions, and count those whose answer is not that of the oracle."""
    rnd = random.Random(chaos.seed)
    stored = [
        LoggedObject(key, o.object_id, o.ts, o.lon, o.lat, o.words, o.parts, o.attributes)
        for key, o in enumerate(outcome.objects)
    ]
    counted = outcome.counted
    statistics = None if counted is None else (len(counted), Counter(word for one in counted for word in one.words))
    kinds = ("range", "knn", "topk", "frequent_terms")
    asked = [some_question(rnd, rnd.choice(kinds), stored) | {"question_id": str(n)} for n in range(QUESTIONS)]
    answers: dict[str, list[tuple[Any, Any]]] = {question["question_id"]: [] for question in asked}
    for row in pststream.open(chaos.home.path).ask(asked).to_pylist():
        is_term = row["kind"] == "frequent_terms"
        pair = (row["term"], row["count"]) if is_term else (row["object_id"], time_us(row["ts"].isoformat()))
        answers[row["question_id"]].append(pair)
    expected = {one["question_id"]: [row[:2] for row in answer(stored, one, statistics=statistics)] for one in asked}
    return {
        "questions": len(asked),
        "answers": sum(map(len, expected.values())),
        "wrong_answers": sum(answers[name] != expected[name] for name in answers),
    }


def _viewed(chaos: ChaosEnvironment) -> Counter[tuple[str, int, str]]:
    """Count the pairs of the view `pairs`, as `exported` has them."""
    rows = pststream.open(chaos.home.path).sql("SELECT object_id, epoch_us(ts), subscription_id FROM pairs")
    return Counter(zip(*(column.to_pylist() for column in rows.columns)))


def is_right(summary: dict[str, Any]) -> bool:
    """Whether there is no error, and no kind of fault without effect."""
    delivered = [sink[name] for sink in summary["deliveries"].values() for name in DELIVERY_ERRORS]
    return not any([*(summary[name] for name in ERRORS), *delivered, summary.get("without_effect")])


def _delivered(chaos: ChaosEnvironment, tables: Tables, messages: list[dict[str, Any]]) -> dict[str, int]:
    """Count the messages of one sink. `unknown` ones follow neither from the tables nor from those before a
    restore or an erasure.
    """
    expected = {message["id"]: message for message in expected_messages(tables)}
    first: dict[str, dict[str, Any]] = {}
    for message in messages:
        first.setdefault(message["id"], message)

    def known(id: str) -> list[dict[str, Any]]:
        """Return the message that is expected, and that which was expected before a restore or an erasure."""
        return [of[id] for of in (expected, chaos.allowed) if id in of] or [first[id]]

    return {
        "expected": len(expected),
        "received": len(messages),
        "repeated": len(messages) - len(first),
        "lost": len(expected.keys() - first.keys()),
        "unknown": len(first.keys() - expected.keys() - chaos.allowed.keys()),
        "changed": sum(all(_differ(one, message) for one in known(message["id"])) for message in messages),
    }


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two messages of one id differ, except in the batch and the words.

    A restored home runs the batch again under another number, and the oracle also lists words of alternatives that
    another clause implies.
    """
    left_out = {"batch_id": 0, "words": []}
    return one | left_out != other | left_out
