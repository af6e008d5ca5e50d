"""Replay batches under another plan (`pststream replay`): what would have been; the home does not change.

The batches run again with their numbers and key ranges, by the code of `match`, in a scratch home whose logs are those
of the home as they were (scratch_home.py). Their matches must be those that were recorded, because matches do not
depend on the plan; their loads are reported next to the recorded ones. The home is only read, and not locked.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.dataset as pds
import pyarrow.parquet as pq

from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.base.atomic_files import write_atomically
from pststream.base.errors import RetryableError, UsageError
from pststream.base.progress import Progress, no_progress
from pststream.pipeline.replan.compare_replayed import compare_answers, describe_differences, find_differences
from pststream.pipeline.replan.recorded_batches import (
    BatchLoads,
    ChosenBatches,
    add_up,
    last_batches,
    read_loads,
    refuse_removed_matches,
)
from pststream.pipeline.replan.scratch_home import TopkPlanner, TriedPlan, make_scratch_home, proposed_plan, run_batches
from pststream.reports.commands.topk_plan import read_topk_plan
from pststream.reports.pages.comparison_page import write_replay
from pststream.reports.reading.pairs import flatten_lists, read_inserted_subscriptions
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.plans import current_version, load_plan, read_plan_row
from pststream.storage.registry import local_path
from pststream.tables.delta_tables import TableReader

MATCHES = pa.schema(
    {
        "object_id": pa.string(),
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
            taken["subscription_id"] = inserted.ids.take(pa.array(inserted.places(keys)))
            yield pa.RecordBatch.from_arrays([pc.cast(taken[f.name], f.type) for f in MATCHES], schema=MATCHES)


SHOWN_DIFFERENCES = 10


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
    "differences": [{"batch_id", "object_id", "subscription_id", "retracted", "only_in"}], "out", "seconds"}.

    out: folder for matches.parquet, loads.csv and replay.json, and during the replay for the scratch home; on a
    cluster it must be one that all nodes mount. Raises UsageError if it is in the home, and if the matches differ
    because the setting `keep` has removed some.
    """
    began = time.perf_counter()
    _check_out(home, out)
    _check_topk(topk, chosen)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".replay-", dir=out, ignore_cleanup_errors=True) as folder:
        scratch = Home(Path(folder) / "home")
        workers = read_plan_row(home, chosen.first["plan_version"])["workers"]
        # Nothing is evicted: an evicted segment would be built again in a measured batch.
        own = replace(settings, workers=workers, cache_dir=f"{folder}/cache", cache_bytes=names.MAX_INT64)
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
            **({} if topk is None else {"topk": _describe_topk(scratch)}),
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


def _describe_topk(scratch: Home) -> dict[str, Any]:
    """Return the plan of `topk` with its loads; its versions are those of no plan of the home."""
    return read_topk_plan(TableReader(scratch)) | {"plan_version": None, "topk_version": None}


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
    home: Home, settings: Settings, *, last: int, proposal: Path, page: Path, progress: Progress
) -> dict[str, Any]:
    """Replay the last `last` batches under the plan of a proposal, and write a page; return the document."""
    chosen = last_batches(home.check(), last)
    document = replay(home, settings, chosen, proposed_plan(home, proposal), progress=progress)
    write_replay(page, home.path, document)
    return document
