"""The worker index against the requests and the plan: each live subscription with exactly the workers it is to be with.

Rows of both tables meet by subscription key in one shuffle, and arrays are compared. A row of the index is judged by
the clause that it is posted under, as it stands in the row, since the ranking of terms that chose it may be that of an
older plan. What a task holds is bounded: the tables are gone through in as many rounds as that takes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pststream import names
from pststream.domain.pieces import IDENTITY, first_clauses
from pststream.matching.deletions import merge_deletions
from pststream.pipeline.engine.contract import ReceivedRows, SentRows
from pststream.pipeline.engine.running_engine import get_engine
from pststream.pipeline.engine.task_context import dispatch_index
from pststream.pipeline.index.build_index import PIECES, REQUEST_COLUMNS, SIDES, pieces_in
from pststream.quality.table_expectations import FIGURES
from pststream.settings import Settings
from pststream.state.data_files import data_files, located
from pststream.state.home import Home
from pststream.state.index_files import IndexFile, index_files
from pststream.state.plans import current_version, index_version
from pststream.state.slices import KeyRange, Slice, read_slices, tasks_of

if TYPE_CHECKING:
    from pandas import DataFrame

ROUND_ROWS = 4_000_000
"""A task compares about as many rows at a time, of some 80 bytes each."""

ASKED, DELETED, STORED, ENDED = 0, 1, 2, 3
"""Tags of received: boxes of insertions, deletions; rows of the index, and those of them that are deletions."""

KEY = pa.field("subscription_key", pa.int64())
BOX = [*(pa.field(side, pa.float64()) for side in SIDES), *(pa.field(n, pa.int64()) for n in ("created_at", "end_at"))]
END = pa.schema([KEY, pa.field("end_at", pa.int64())])
SENT = {
    ASKED: pa.schema([KEY, *BOX, pa.field("terms", pa.int64())]),
    DELETED: END,
    STORED: pa.schema(
        [
            KEY,
            *BOX,
            *(pa.field(name, pa.int64()) for name in ("terms", "posted", "worker", "workers")),
            pa.field("mine", pa.bool_()),
        ]
    ),
    ENDED: END,
}
"""Columns of each: `terms` sums the ids of all terms, `posted` those of the clause that the row is posted under;
`workers` is how many are to have the row, `mine` whether `worker` is one of them."""

Found = tuple[int, list[int]]
"""How many, and the subscription keys of some."""

EXAMPLES = 3

PARTS_PER_TASK = 2
"""Parts of a round, for each task that runs at the same time."""


@dataclass(frozen=True)
class Checked:
    """What is checked: the index's files, and the last request and batch that it is to know.

    bound: what ended at this time (microseconds) or before may be in the index or not. migrated: workers may hold rows
    that a migration has left with them.
    """

    home: str
    files: tuple[IndexFile, ...]
    requests_to: int
    batch_id: int
    bound: int
    migrated: bool


@dataclass(frozen=True)
class Round:
    """Keys of one round: those that leave `number` over when divided by `rounds`; `parts` tasks share them."""

    number: int
    rounds: int
    parts: int


def placement_figures(
    home: Home, settings: Settings, requests_to: int, batch_id: int, bound: int
) -> tuple[dict[str, int | None], dict[str, list[int]]]:
    """The figures of the check `placement` (quality/table_expectations.py), and some subscription keys for each that
    is not zero.

    Counts the index as it is to be after the requests up to a key and the batches up to a number.
    """
    version = current_version(home)
    files = tuple(index_files(home, version)) if version else ()
    work = Checked(home.path, files, requests_to, batch_id, bound, index_version(home, version) != version)
    requests = data_files(home, names.REQUESTS)
    wanted = KeyRange("request_key", 0, requests_to)
    tasks = [(ASKED, slices) for slices in tasks_of(located(home, names.REQUESTS, wanted.files(requests)))]
    tasks += [(STORED, slices) for slices in tasks_of((file.path, file.rows) for file in files)]
    engine = get_engine(settings)
    parts = PARTS_PER_TASK * engine.parallelism
    rows = sum(file.rows for file in requests) + sum(file.rows for file in files)
    rounds = 1 + rows // (ROUND_ROWS * parts)
    counts: dict[str, int | None] = dict.fromkeys(FIGURES["placement"], 0)
    examples: dict[str, list[int]] = {figure: [] for figure in counts}
    for number in range(rounds):
        part = Round(number, rounds, parts)
        for told in engine.run_shuffled(tasks, partial(_send, work, part), parts, partial(_compare, work)):
            for figure, (count, keys) in told.items():
                counts[figure] = (counts[figure] or 0) + count
                examples[figure] = sorted([*examples[figure], *keys])[:EXAMPLES]
    if work.migrated:
        counts["stray"] = None
    return counts, examples


def _send(work: Checked, part: Round, task: tuple[int, tuple[Slice, ...]]) -> Iterator[SentRows]:
    tag, slices = task
    for kind, rows in _asked(work, slices) if tag == ASKED else _stored(work, slices):
        keys = rows.column("subscription_key").to_numpy()
        of_round = rows.filter(pa.array(keys % part.rounds == part.number))
        bucket = of_round.column("subscription_key").to_numpy() // part.rounds % part.parts
        for number in np.unique(bucket):
            yield int(number), kind, of_round.filter(pa.array(bucket == number))


def _asked(work: Checked, slices: tuple[Slice, ...]) -> ReceivedRows:
    """The boxes that requests ask for, and their deletions."""
    for rows in read_slices(slices, ["request_key", *REQUEST_COLUMNS], KeyRange("request_key", 0, work.requests_to)):
        pieces = pieces_in(rows)
        terms, _ = _sums(pieces.column("clauses"))
        yield ASKED, pieces.append_column("terms", pa.array(terms)).select(SENT[ASKED].names)
        deleted = rows.filter(pc.equal(rows.column("op"), "delete"))
        ends = {"subscription_key": deleted.column("subscription_key"), "end_at": deleted.column("at").cast(pa.int64())}
        yield DELETED, pa.RecordBatch.from_pydict(ends, schema=SENT[DELETED])


def _stored(work: Checked, slices: tuple[Slice, ...]) -> ReceivedRows:
    """The rows of the index: how many workers are to have each, and whether its own is one of them."""
    file_of = {file.path: file for file in work.files}
    for part in slices:
        file = file_of[part.path]
        for rows in read_slices([part], [*PIECES.names, "batch_id"], KeyRange("batch_id", -1, work.batch_id)):
            if file.worker == names.EVERY_WORKER:
                yield ENDED, rows.select(SENT[ENDED].names)
                continue
            yield STORED, _placed(work, file, rows)


def _placed(work: Checked, file: IndexFile, rows: pa.RecordBatch) -> pa.RecordBatch:
    boxes = np.column_stack([rows.column(side).to_numpy() for side in SIDES])
    dispatch = dispatch_index(work.home, file.plan_version)
    offsets, workers = dispatch.workers_of_pieces(boxes, *first_clauses(rows.column("clauses")))
    owner = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
    terms, posted = _sums(rows.column("clauses"))
    judged = {
        "terms": terms,
        "posted": posted,
        "worker": np.full(rows.num_rows, file.worker),
        "workers": np.diff(offsets).astype(np.int64),
        "mine": np.bincount(owner[workers == file.worker], minlength=rows.num_rows) > 0,
    }
    told = {name: rows.column(name) for name in ("subscription_key", *(field.name for field in BOX))}
    return pa.RecordBatch.from_pydict(told | judged, schema=SENT[STORED])


def _sums(clauses: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Of each row the sums of its term ids, modulo 2^64: of all clauses, in whatever order, and of the first."""
    outer, inner = clauses.offsets.to_numpy(), clauses.values.offsets.to_numpy()
    terms = clauses.values.values.to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(terms.astype(np.int64))])
    starts = inner[outer[:-1]]
    return before[inner[outer[1:]]] - before[starts], before[inner[outer[:-1] + 1]] - before[starts]


def _compare(work: Checked, _: int, received: ReceivedRows) -> dict[str, Found]:
    """What is wrong with the keys of a part, by figure."""
    held: dict[int, list[pa.RecordBatch]] = {tag: [] for tag in SENT}
    for tag, rows in received:
        held[tag].append(rows)
    asked, deleted, stored, ended = (pa.Table.from_batches(held[tag], SENT[tag]).to_pandas() for tag in SENT)
    asked_key, stored_key, ended_key = (frame["subscription_key"].to_numpy() for frame in (asked, stored, ended))
    deleted_at, told_end = _ends_of(asked_key, deleted), _ends_of(asked_key, ended)
    final = np.minimum(asked["end_at"].to_numpy(), deleted_at)
    place = _places(stored, asked)
    matched = place >= 0
    doubled = stored.duplicated([*IDENTITY, "worker"]).to_numpy()
    mine = stored["mine"].to_numpy()
    counted = matched & mine & ~doubled
    held_by, to_hold = np.bincount(place[counted], minlength=len(asked)), np.ones(len(asked), np.int64)
    to_hold[place[counted]] = stored["workers"].to_numpy()[counted]
    forgotten = told_end > deleted_at
    lasting = matched.copy()
    lasting[matched] = stored["end_at"].to_numpy()[matched] > deleted_at[place[matched]]
    found = {
        "missing": asked_key[(final > work.bound) & (held_by != to_hold)],
        "stray": stored_key[~mine],
        "doubled": stored_key[doubled],
        "orphans": np.concatenate(
            [
                stored_key[~np.isin(stored_key, asked_key)],
                ended_key[~np.isin(ended_key, deleted["subscription_key"].to_numpy())],
            ]
        ),
        "altered": stored_key[np.isin(stored_key, asked_key) & ~_as_asked(stored, asked, place, final)],
        "lost_deletions": stored_key[lasting][forgotten[place[lasting]]],
    }
    return {figure: (len(keys), keys[:EXAMPLES].tolist()) for figure, keys in found.items()}


def _places(stored: "DataFrame", asked: "DataFrame") -> np.ndarray:
    """The place among the boxes asked for of each row of the index: int64, -1 where there is none."""
    boxes = asked[[*IDENTITY]].assign(place=np.arange(len(asked)))
    found = stored[[*IDENTITY]].merge(boxes, how="left", on=[*IDENTITY])
    return found["place"].fillna(-1).to_numpy(np.int64)


def _ends_of(keys: np.ndarray, deletions: "DataFrame") -> np.ndarray:
    """The earliest deletion of each key: int64 microseconds, NEVER_US where there is none."""
    columns = {"keys": deletions["subscription_key"].to_numpy(), "ends": deletions["end_at"].to_numpy()}
    known, ends = merge_deletions([columns])
    if not len(known):
        return np.full(len(keys), names.NEVER_US)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, ends[place], names.NEVER_US)


def _as_asked(stored: "DataFrame", asked: "DataFrame", place: np.ndarray, final: np.ndarray) -> np.ndarray:
    """Whether each row of the index is what its request makes, and all rows of a box are posted under one clause."""
    matched = place >= 0
    mine, theirs, place = stored[matched], asked.iloc[place[matched]], place[matched]
    same = np.ones(len(mine), bool)
    for name in ("east", "north", "created_at", "terms"):
        same &= mine[name].to_numpy() == theirs[name].to_numpy()
    end = mine["end_at"].to_numpy()
    same &= (end == theirs["end_at"].to_numpy()) | (end == final[place])
    posted, first = mine["posted"].to_numpy(), np.zeros(len(asked), np.int64)
    first[place] = posted
    told = np.zeros(len(stored), bool)
    told[matched] = same & (posted == first[place])
    return told
