"""Replay batches under another plan (`pststream replay`): what would have been; the home does not change.

The batches run again with their numbers and key ranges, by the code of `match`, in a scratch home whose logs are those
of the home as they were (scratch_home.py). Their matches must be those that were recorded, because matches do not
depend on the plan; their loads are reported next to the recorded ones. The home is only read, and not locked.

Each row of `matches` is a set of pairs (batch, object, subscription, retracted or not). To compare them, tasks add up
two 64-bit hashes of each pair in buckets by object, in any order and in constant memory. If the sums and the counts of
all buckets are equal, the pairs are the same, each as many times, but for a chance of 2^-128. If not, the pairs of some
differing buckets are read and compared one by one.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as pds
import pyarrow.parquet as pq

from pststream.answers.contract import OLD_CHANGES, remaining_rows
from pststream.base import names
from pststream.base.arrays import hash_integers
from pststream.base.arrow_columns import TIME, csr
from pststream.base.atomic_files import write_atomically
from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import Counted, Progress, TaskCounter, no_progress
from pststream.engine.running_engine import get_engine
from pststream.pipeline.answers.log_rows import CHANGE, slices_of
from pststream.pipeline.replan.compare_planners import scratch_place
from pststream.pipeline.replan.scratch_home import (
    BatchLoads,
    ChosenBatches,
    TopkPlanner,
    TriedPlan,
    add_up,
    last_batches,
    make_scratch_home,
    proposed_plan,
    read_loads,
    refuse_removed_matches,
    run_batches,
)
from pststream.reports.commands.plans import read_topk_plan
from pststream.reports.pages.adjustment_page import write_replay
from pststream.reports.reading.pairs import flatten_lists, read_inserted_subscriptions
from pststream.settings import Settings
from pststream.state.data_files import DataFile, addresses_and_rows, list_data_files
from pststream.state.erasures import removed_rows
from pststream.state.home import Home
from pststream.state.plans import current_version, load_plan, read_plan_row
from pststream.state.slices import KeyRange, Slice, read_slices, rows_of_tasks, split_into_tasks
from pststream.state.tables import TABLES
from pststream.storage.registry import Address, local_path
from pststream.tables.delta_tables import TableReader, last_transaction
from pststream.tables.owners import ID_COLUMNS

MATCH_COLUMNS = ["object_key", "subscription_keys", "retracted", "batch_id"]
BUCKETS = 256
MAX_BUCKETS = 4
"""Differing buckets whose pairs are compared one by one."""

Pair = tuple[int, int, int, bool]
"""Batch, object key, subscription key, whether the pair is retracted."""


@dataclass(frozen=True)
class Difference:
    """A pair that the recorded matches have and the replay does not (`missing`), or the other way round."""

    pair: Pair
    missing: bool


def find_differences(
    home: Home, scratch: Home, settings: Settings, first: int, last: int, progress: Progress = no_progress
) -> list[Difference]:
    """Return pairs of the batches `first` to `last` that only one of the two homes has, in order; empty: none differs.

    Of many differences, those of the first MAX_BUCKETS buckets of objects are returned.
    """
    batches = KeyRange("batch_id", first - 1, last)
    recorded, replayed = (_sum_pairs(one, settings, batches, progress) for one in (home, scratch))
    differing = np.flatnonzero((recorded != replayed).any(axis=0))[:MAX_BUCKETS]
    if not len(differing):
        return []
    read = partial(_read_slices, batches, differing)
    was, now = (
        Counter(chain.from_iterable(get_engine(settings, home).run_tasks(_tasks(one, batches), read)))
        for one in (home, scratch)
    )
    differences = [Difference(pair, True) for pair in (was - now).elements()]
    differences += [Difference(pair, False) for pair in (now - was).elements()]
    return sorted(differences, key=lambda one: one.pair)


def _tasks(home: Home, batches: KeyRange) -> list[tuple[Slice, ...]]:
    files = batches.files(list_data_files(home, names.MATCHES))
    return split_into_tasks(addresses_and_rows(home, names.MATCHES, files))


def _sum_pairs(home: Home, settings: Settings, batches: KeyRange, progress: Progress) -> np.ndarray:
    """Return the sums of both hashes of the pairs of each bucket, and the counts of the pairs: uint64[3, BUCKETS]."""
    tasks = _tasks(home, batches)
    counter = TaskCounter(progress, Counted("comparing the matches", "row", rows_of_tasks(tasks)))
    total = np.zeros((3, BUCKETS), np.uint64)
    for part in get_engine(settings, home).run_tasks(tasks, partial(_sum_slices, batches), counter):
        total += part
    return total


def _sum_slices(batches: KeyRange, slices: tuple[Slice, ...]) -> np.ndarray:
    sums = np.zeros((3, BUCKETS), np.uint64)
    for batch, thing, subscription, retracted in _pairs_of(slices, batches):
        bucket = thing % BUCKETS
        sums[2] += np.bincount(bucket, minlength=BUCKETS).astype(np.uint64)
        for salt in (0, 1):
            hashes = hash_integers(subscription, 2 * salt + 1)
            hashes = hash_integers(hashes ^ hash_integers(thing, 2 * salt + 2))
            hashes = hash_integers(hashes ^ hash_integers(2 * batch + retracted, salt))
            np.add.at(sums[salt], bucket, hashes)
    return sums


def _read_slices(batches: KeyRange, buckets: np.ndarray, slices: tuple[Slice, ...]) -> list[Pair]:
    pairs: list[Pair] = []
    for columns in _pairs_of(slices, batches):
        chosen = np.isin(columns[1] % BUCKETS, buckets)
        pairs += zip(*(column[chosen].tolist() for column in columns))
    return pairs


def _pairs_of(
    slices: tuple[Slice, ...], batches: KeyRange
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield batch, object key, subscription key and `retracted` of each pair, some at a time."""
    for rows in read_slices(slices, MATCH_COLUMNS, batches):
        for part in (rows.slice(start, 8_192) for start in range(0, rows.num_rows, 8_192)):
            offsets, subscription = csr(part.column("subscription_keys"))
            row = np.repeat(np.arange(part.num_rows), np.diff(offsets))
            yield (
                part.column("batch_id").to_numpy()[row],
                part.column("object_key").to_numpy()[row],
                subscription,
                part.column("retracted").to_numpy(zero_copy_only=False)[row],
            )


def describe_differences(home: Home, differences: list[Difference]) -> list[dict[str, object]]:
    """Return differences with the ids of their objects and subscriptions, as `pststream replay --json` prints them."""
    objects = _ids(home, names.OBJECTS, "object_key", ("object_id",), {one.pair[1] for one in differences})
    subscriptions = _ids(home, names.REQUESTS, "request_key", ID_COLUMNS, {one.pair[2] for one in differences})
    return [
        {
            "batch_id": batch,
            **objects.get(thing, {"object_id": None}),
            **subscriptions.get(subscription, dict.fromkeys(ID_COLUMNS)),
            "retracted": retracted,
            "only_in": "recorded" if one.missing else "replayed",
        }
        for one in differences
        for batch, thing, subscription, retracted in (one.pair,)
    ]


def _ids(home: Home, name: str, key: str, columns: Sequence[str], wanted: set[int]) -> dict[int, dict[str, str | None]]:
    """Return these columns of each key in a log."""
    keys = pa.array(sorted(wanted), pa.int64())
    files = [file for file in list_data_files(home, name) if file.may_contain(key, keys[0].as_py(), keys[-1].as_py())]
    ids: dict[int, dict[str, str | None]] = {}
    for slices in split_into_tasks(addresses_and_rows(home, name, files)):
        for rows in read_slices(slices, [key, *columns]):
            chosen = rows.filter(pc.is_in(rows.column(key), keys))
            ids |= {row.pop(key): row for row in chosen.to_pylist()}
    return ids


ANSWER_COLUMNS = ["batch_id", "bucket", "event", "subscription_key", "object_key", "ts", "value", "term"]
SCHEMA = pa.schema([TABLES[names.ANSWER_LOG].schema.field(name) for name in ANSWER_COLUMNS])
IDENTIFYING = ("subscription_key", "object_key", "ts", "value")


def compare_answers(home: Home, scratch: Home, settings: Settings, last: int) -> dict[str, bool | None]:
    """Return {"answers_equal": whether both homes have the same answers after the batch `last`}; empty without answers.

    None: the recorded answers are unknown, as rows or changes that they were made of were removed since.

    Compares the sums of all changes: a scratch home begins without a state, so its changes are other ones. Reports of
    `frequent_terms` are not compared: the scratch home logs only what a batch changes in them.
    """
    if not list_data_files(home, names.ANSWER_LOG):
        return {}
    removed = set(removed_rows(home).column("table_name").to_pylist())
    is_summed = last < last_transaction(home.table(names.ANSWER_LOG), OLD_CHANGES)
    if is_summed or removed & {names.OBJECTS, names.REQUESTS}:
        return {"answers_equal": None}
    sides = []
    for one in (home, scratch):
        files = KeyRange("batch_id", -1, last).files(list_data_files(one, names.ANSWER_LOG))
        changes = [file for file in files if file.partition["part"] == CHANGE]
        sides.append(list(zip(changes, slices_of(one, changes), strict=True)))
    compare = partial(_count_differences, sides, last)
    return {"answers_equal": not sum(get_engine(settings, home).run_tasks(range(home.answer_buckets), compare))}


def _count_differences(homes: list[list[tuple[DataFile, Slice]]], last: int, bucket: int) -> int:
    """Count the rows of answers of a bucket that only one of two homes has; homes: data files of `answer_log`."""
    sides = [_read_answers(files, last, bucket) for files in homes]
    columns = [np.concatenate(both) for both in zip(*sides, strict=True)]
    order = np.lexsort(columns)
    same = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    return len(order) - 2 * int(same.sum())


def _read_answers(files: list[tuple[DataFile, Slice]], last: int, bucket: int) -> list[np.ndarray]:
    """Return the columns IDENTIFYING of the answers of a bucket, an object a row."""
    slices = [one for file, one in files if file.may_contain("bucket", bucket, bucket)]
    parts = []
    for batch in read_slices(slices, ANSWER_COLUMNS, KeyRange("batch_id", -1, last)):
        chosen = pc.and_(pc.equal(batch.column("bucket"), bucket), pc.is_valid(batch.column("object_key")))
        parts.append(batch.filter(chosen).cast(SCHEMA))
    changes = pa.Table.from_batches(parts, SCHEMA)
    present = changes.take(pa.array(remaining_rows(changes)))
    present = present.set_column(SCHEMA.get_field_index("ts"), "ts", present.column("ts").cast(pa.int64()))
    return [present.column(name).to_numpy() for name in IDENTIFYING]


MATCHES = pa.schema(
    {
        "object_id": pa.string(),
        "owner": pa.string(),
        "subscription_id": pa.string(),
        "ts": TIME,
        "batch_id": pa.int64(),
        "worker": pa.int64(),
        "retracted": pa.bool_(),
    }
)
"""Columns of matches.parquet: a row for each pair that a batch found or retracted, and the worker that found it."""

ROWS = 8_192


def write_results(
    out: Path, home: Home, scratch: Home, first: int, was: BatchLoads, would_be: BatchLoads, document: dict[str, Any]
) -> None:
    """Write matches.parquet, of the batches from number `first` on in the scratch home, loads.csv and replay.json."""
    out.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(out / "matches.parquet", MATCHES, compression="zstd") as writer:
        for pairs in _read_pairs(home, scratch, first):
            writer.write_batch(pairs)
    sides = (("was", was.workers), ("would_be", would_be.workers))
    rows = [part.add_column(0, "side", pa.array([side] * part.num_rows, pa.string())) for side, part in sides]
    pa_csv.write_csv(pa.concat_tables(rows), out / "loads.csv", pa_csv.WriteOptions(quoting_style="needed"))
    write_atomically(out / "replay.json", (json.dumps(document, indent=1) + "\n").encode())


def _read_pairs(home: Home, scratch: Home, first: int) -> Iterator[pa.RecordBatch]:
    inserted = read_inserted_subscriptions(TableReader(home))
    columns = ("object_id", "ts", "subscription_keys", "retracted", "worker", "batch_id")
    replayed = TableReader(scratch)
    wanted = pds.field("batch_id") >= first
    for _, file in replayed.files(names.MATCHES, "batch_id", wanted):
        for rows in replayed.batches_of(names.MATCHES, file, columns, wanted, ROWS):
            row, keys = flatten_lists(rows.column("subscription_keys"))
            taken = {name: rows.column(name).take(pa.array(row)) for name in rows.schema.names}
            places = pa.array(inserted.places(keys))
            taken |= {"owner": inserted.owners.take(places), "subscription_id": inserted.ids.take(places)}
            yield pa.RecordBatch.from_arrays([pc.cast(taken[f.name], f.type) for f in MATCHES], schema=MATCHES)


SHOWN_DIFFERENCES = 10
NOT_STORED = {"plan_version": None, "topk_version": None}
"""Versions of a plan of `topk` that the home does not have."""


def replay(
    home: Home,
    settings: Settings,
    chosen: ChosenBatches,
    plan: TriedPlan | None,
    *,
    topk: TopkPlanner | None = None,
    out: Path | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Run the chosen batches under a plan; None: one that `settings.planner` makes from what was stored before them.

    The new plan is for as many workers as the plan of the first batch, as the loads of workers are compared.

    topk: makes a plan of `topk` after the first batch, under which the others run; None: candidates of `topk`
    are found by bucket, whatever plan the home has

    Returns {"batches", "first_batch", "last_batch", "plan": {"plan_version" (null: not stored), "planner", "workers",
    "units"}, "was", "would_be" (both as `add_up` returns them), "topk" (with a planner of `topk`: its plan, as
    `read_topk_plan` returns it), "matches_equal", "answers_equal" (if the home has answers; null: not known),
    "differences": [{"batch_id", "object_id", "owner", "subscription_id", "retracted",
    "only_in"}], "out", "seconds"}.

    out: folder for matches.parquet, loads.csv and replay.json, and during the replay for the scratch home, which on a
    cluster is in the home. Raises UsageError if it is in the home, and if the matches differ
    because the setting `keep` has removed some.
    """
    began = time.perf_counter()
    _check_out(home, out)
    _check_topk(topk, chosen)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with scratch_place(home, settings, out) as (folder, chosen_cache):
        scratch = Home(f"{folder}/home")
        own = replace(chosen_cache, workers=read_plan_row(home, chosen.first["plan_version"])["workers"])
        try:
            make_scratch_home(home, scratch, own, chosen, plan, progress)
            run_batches(home, scratch, own, chosen, topk, progress)
        except FileNotFoundError as error:
            raise RetryableError(f"a data file was removed during the replay: {error}", "run this again") from None
        first, last = chosen.first["batch_id"], chosen.last["batch_id"]
        compared = _compare_results(home, scratch, own, chosen, progress)
        was, would_be = (read_loads(one, first, last) for one in (home, scratch))
        document = {
            "batches": len(chosen.batches),
            "first_batch": first,
            "last_batch": last,
            "plan": _describe_plan(scratch, plan),
            **_figures(home, scratch, was, would_be, plan),
            **({} if topk is None else {"topk": read_topk_plan(TableReader(scratch)) | NOT_STORED}),
            **compared,
            "out": None if out is None else str(out),
            "seconds": round(time.perf_counter() - began, 3),
        }
        if out is not None:
            write_results(out, home, scratch, first, was, would_be, document)
    return document


def _check_out(home: Home, out: Path | None) -> None:
    folder = local_path(home.path)
    if out is None:
        return
    if folder is not None and out.absolute().resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"--out {out}: is in the home, which a replay does not change", "give another folder")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is not a folder", "give a folder")


def _check_topk(topk: TopkPlanner | None, chosen: ChosenBatches) -> None:
    if topk is not None and len(chosen.batches) == 1:
        raise UsageError(
            "a plan of topk is made after the first of the batches, and there is no other",
            "replay at least two batches: --last 2",
        )


def _describe_plan(scratch: Home, plan: TriedPlan | None) -> dict[str, Any]:
    version = current_version(scratch)
    row = read_plan_row(scratch, version)
    stored = version if plan is not None and plan.stored else None
    return {"plan_version": stored, **{name: row[name] for name in ("planner", "workers", "units")}}


def _compare_results(
    home: Home, scratch: Home, settings: Settings, chosen: ChosenBatches, progress: Progress
) -> dict[str, Any]:
    """Return "matches_equal", "answers_equal" and "differences" of the document.

    settings: those of the replay. Raises UsageError if the setting `keep` has removed recorded matches.
    """
    first, last = chosen.first["batch_id"], chosen.last["batch_id"]
    progress("comparing the matches")
    differences = find_differences(home, scratch, settings, first, last, progress)
    if differences:
        refuse_removed_matches(home, first, last)
    return {
        "matches_equal": not differences,
        **compare_answers(home, scratch, settings, last),
        "differences": describe_differences(home, differences[:SHOWN_DIFFERENCES]) if differences else [],
    }


def _figures(
    home: Home, scratch: Home, was: BatchLoads, would_be: BatchLoads, plan: TriedPlan | None
) -> dict[str, dict[str, Any]]:
    """Return the recorded and the replayed figures."""
    versions = {batch["plan_version"] for batch in was.batches}
    recorded = add_up(was, max(load_plan(home, version).workers for version in versions))
    replayed = add_up(would_be, load_plan(scratch, current_version(scratch)).workers)
    if plan is None or not plan.stored:
        replayed["plan_versions"] = []
    return {"was": recorded, "would_be": replayed}


def replay_proposal(
    home: Home, settings: Settings, *, last: int, proposal: Address, page: Address, progress: Progress
) -> dict[str, Any]:
    """Replay the last `last` batches under the plan of a proposal, and write a page; return the document."""
    chosen = last_batches(home.check(), last)
    document = replay(home, settings, chosen, proposed_plan(home, proposal), progress=progress)
    write_replay(page, home.path, document)
    return document
