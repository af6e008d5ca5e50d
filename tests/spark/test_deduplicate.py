"""Deduplication gives the same verdicts in one part and in many, by full reads, by id lookups and by id indexes."""

import random
import shutil
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pststream.pipeline.ingest import deduplicate, ingest_transaction
from tests import worlds
from tests.commands import new_home
from tests.kill_and_rerun import table_of
from tests.oracles import twin
from tests.oracles.twin_rows import LogFile
from tests.spark.test_invariance import by_rule


@pytest.mark.parametrize(
    ("max_lookup_rows", "min_indexed_rows"),
    [(0, 1), (deduplicate.MAX_LOOKUP_ROWS, 1), (deduplicate.MAX_LOOKUP_ROWS, deduplicate.MIN_INDEXED_ROWS)],
    ids=["full read", "id index", "id lookup"],
)
def test_parts_and_lookups_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_lookup_rows: int, min_indexed_rows: int
) -> None:
    monkeypatch.setattr(deduplicate, "PART_ROWS", 10)
    monkeypatch.setattr(deduplicate, "MAX_LOOKUP_ROWS", max_lookup_rows)
    monkeypatch.setattr(deduplicate, "MIN_INDEXED_ROWS", min_indexed_rows)
    world = worlds.write_world(tmp_path, worlds.random_world(41, objects=150, requests=150, files=3), 41)
    home = new_home(tmp_path / "home", planner="grid", workers=2, lateness_seconds=world.lateness_seconds)
    for kind, files in (("objects", world.objects), ("requests", world.requests)):
        for file in files:
            home.ingest(kind, [file])
    wanted = dict(twin.outcome_of(world.log, world.lateness_seconds).rejected)
    assert {reason for _, reason in wanted} >= {"duplicate", "already_live"}
    assert by_rule(home) == wanted


@pytest.mark.parametrize("together", [False, True], ids=["file by file", "at once"])
def test_the_ids_of_an_owner_are_his_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    """The rules hold within an owner, as if he had the request log for himself; ids are equal across owners."""
    monkeypatch.setattr(deduplicate, "PART_ROWS", 10)
    monkeypatch.setattr(deduplicate, "MIN_INDEXED_ROWS", 1)
    world = worlds.write_world(tmp_path, worlds.random_world(43, objects=10, requests=240, files=8), 43)
    owners = ("", "s", "s1")
    home, landing = new_home(tmp_path / "home"), tmp_path / "landing" / "requests"
    for place, path in enumerate(world.requests):
        owner = owners[place % 3]
        (landing / owner).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, landing / owner)
        if not together:
            home.ingest("requests", [path], "--owner", owner)
    if together:
        assert home.run("run", landing.parent)["ingest"]["requests"]["files"] == len(world.requests)
    logs = [[LogFile("requests", path) for path in world.requests[place::3]] for place in range(3)]
    wanted = sum((twin.outcome_of(log).rejected for log in logs), Counter[tuple[str, str]]())
    assert {reason for _, reason in wanted} >= {"already_live", "unknown_subscription"}
    assert by_rule(home) == wanted
    alone = twin.outcome_of([LogFile("requests", path) for path in world.requests]).rejected
    assert alone != wanted, "requests of one owner would have other rejects"


QUOTAS = {"quota_subscriptions": 6, "quota_room": 40, "quota_postings": 15, "max_file_room": 60}
TIMES = ["2000-01-01T00:00:00Z", "2010-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2140-01-01T00:00:00Z"]
ENDS = ["2005-01-01T00:00:00Z", "2015-01-01T00:00:00Z", "2130-01-01T00:00:00Z", "2150-01-01T00:00:00Z"]
CLOCKS = [
    "2003-01-01T00:00:00Z",
    "2005-01-01T00:00:00Z",
    "2012-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z",
    "2131-01-01T00:00:00Z",
]
NEVER = "9"


def random_requests(rnd: random.Random, count: int) -> worlds.Rows:
    """Requests for few ids that begin and end before and after the clocks; of some, `k` is out of range."""
    rows: worlds.Rows = []
    for _ in range(count):
        name = f"s{rnd.randrange(9)}"
        if rnd.random() < 0.4:
            rows.append({"op": "delete", "subscription_id": name, "at": rnd.choice([*TIMES, *ENDS])})
            continue
        row = {"op": "insert", "subscription_id": name, "created_at": rnd.choice(TIMES)}
        later = [end for end in ENDS if end > row["created_at"]]
        row |= {"expires_at": rnd.choice(later)} if rnd.random() < 0.7 else {}
        row |= {"keywords": " ".join("abcd"[: rnd.randint(1, 4)])}
        if rnd.random() < 0.4:
            topk = {"kind": "topk", "k": rnd.choice([0, 3, 9]), "alpha": 0.5, "window": "1h"}
            rows.append(row | topk | {"point": {"lon": 1.0, "lat": 2.0}})
        else:
            rows.append(row | {"bbox": [0, 0, 9, 9]})
        if rnd.random() < 0.2:
            rows[-1] = worlds.as_replacement(rows[-1])
    return rows


class OwnerTwin:
    """The rules for the requests of one owner: for each insertion, all that he has inserted is added up again."""

    def __init__(self) -> None:
        self.lives: list[dict[str, Any]] = []
        self.clock = ""

    def take(self, rows: worlds.Rows, clock: str) -> list[str]:
        """Return the reasons for the rejected rows of a file, "" of accepted ones."""
        self.closed, self.asked, self.clock = "", 0, max(clock, self.clock)
        return [self._delete(row) if row["op"] == "delete" else self._insert(row) for row in rows]

    def _insert(self, row: worlds.Row) -> str:
        if row.get("k") == 0:
            return "out_of_range"
        words = len(row["keywords"].split())
        start = row.get("created_at") or row["at"]
        new = {"id": row["subscription_id"], "start": start, "end": row.get("expires_at", NEVER)}
        new |= {"postings": words, "room": 3 * row.get("k", 0) + words}
        self.asked += new["room"]
        if not self.closed and self.asked > QUOTAS["max_file_room"]:
            self.closed = "over_room"
        if self.closed:
            return self.closed
        old = [life for life in self._of(row)[-1:] if life["end"] > start]
        if row["op"] == "replace" and any(life["start"] >= start for life in old):
            return "before_insertion"
        if row["op"] == "insert" and old:
            return "already_live"
        others = [one for one in self.lives if one not in old] + [one | {"end": start} for one in old]
        live = [life for life in [*others, new] if life["end"] > self.clock]
        takes = {"quota_subscriptions": len(live)}
        takes |= {f"quota_{name}": sum(life[name] for life in live) for name in ("room", "postings")}
        if any(takes[name] > QUOTAS[name] for name in takes):
            self.closed = "over_quota"
            return self.closed
        self.lives = [*others, new]
        return ""

    def _delete(self, row: worlds.Row) -> str:
        last = self._of(row)[-1:]
        if not last or last[0]["end"] <= row["at"]:
            return "unknown_subscription"
        if row["at"] <= last[0]["start"]:
            return "before_insertion"
        last[0]["end"] = row["at"]
        return ""

    def _of(self, row: worlds.Row) -> list[dict[str, Any]]:
        return [life for life in self.lives if life["id"] == row["subscription_id"]]


@pytest.mark.parametrize("together", [False, True], ids=["file by file", "at once"])
def test_quotas_are_decided_in_the_order_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    monkeypatch.setattr(deduplicate, "PART_ROWS", 10)
    home = new_home(tmp_path / "home", engine="spark" if together else "local", **QUOTAS)
    landing, rnd, wanted, clock = tmp_path / "landing" / "requests", random.Random(47), set(), CLOCKS[3]
    monkeypatch.setattr(ingest_transaction, "utc_now", lambda: datetime.fromisoformat(clock))
    for owner in ("", "ada", "bob"):
        (landing / owner).mkdir(parents=True, exist_ok=True)
        log = OwnerTwin()
        for number in range(12):
            rows = random_requests(rnd, rnd.choice([1, 8, 25]))
            path = worlds.write_rows(landing / owner / f"f{number:02}.jsonl", rows)
            clock = clock if together else rnd.choice(CLOCKS[: 2 + number // 3])
            reasons = log.take(rows, clock)
            wanted |= {(str(path), row, reason) for row, reason in enumerate(reasons, 1) if reason}
            if not together:
                home.ingest("requests", [path], "--owner", owner)
    if together:
        assert home.run("run", landing.parent)["ingest"]["requests"]["files"] == 36
    rejects = table_of(home, "rejects").to_pyarrow_table(columns=["file", "row", "reason"]).to_pylist()
    found = {(one["file"], one["row"], one["reason"]) for one in rejects}
    by_reason = Counter(reason for *_, reason in wanted)
    assert found == wanted, by_reason
    assert min(by_reason[reason] for reason in ("over_quota", "already_live", "unknown_subscription")) > 20, by_reason
    assert by_reason["over_room"] > 5, by_reason
    assert home.run("check")
