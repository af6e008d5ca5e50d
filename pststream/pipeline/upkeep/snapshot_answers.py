"""Write the snapshots of all buckets of answers, and drop the rows of `answer_log` that they make unnecessary.

The last two snapshots stay. A row of part `state` goes when the older of them contains its batch: by whole files, since
`maintain` compacts only rows after it. Killed at any point, the next `maintain` continues.
"""

from functools import partial

from pststream.answers.read_bucket import read_parts
from pststream.base import names
from pststream.base.progress import Counted, Progress, TaskCounter
from pststream.engine.running_engine import get_engine
from pststream.pipeline.answers.answer_context import AnswerContext, context_after
from pststream.pipeline.answers.bucket_snapshots import TRANSACTIONS, last_snapshot, write_snapshot
from pststream.pipeline.answers.fold_bucket import open_previous_state
from pststream.pipeline.answers.log_rows import READ_ROWS, list_state_files
from pststream.pipeline.answers.window_boundaries import list_boundary_files
from pststream.pipeline.index.superseded_pieces import has_standing_queries
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.data_files import DataFile, commit_files, list_data_files
from pststream.state.home import Home
from pststream.tables.log_end import Ledger


def snapshot_answers(home: Home, settings: Settings, progress: Progress) -> dict[str, int] | None:
    """Write the snapshots after the last batch and drop what is older; the home is locked, no batch is unfinished.

    Returns {"batch_id", "rows", "bytes"} of the snapshots, None if the batch has them already or there are no answers.
    """
    last, snapshot = Ledger(home).last_batch, None
    if last is None or not has_standing_queries(home, last["requests_to"]):
        return None
    before = last_snapshot(home)
    if before < last["batch_id"]:
        counted = Counted("writing the snapshot of answers", "bucket", [1] * home.answer_buckets)
        write = partial(_snapshot_bucket, context_after(home, settings, last))
        written = get_engine(settings).run_tasks(range(home.answer_buckets), write, TaskCounter(progress, counted))
        older = [file for file in list_data_files(home, names.ANSWERS) if file.high["batch_id"] < before]
        crash_point("maintain.snapshot_written")
        files = [file for file in written if file is not None]
        commit_files(home, names.ANSWERS, files, older, application=TRANSACTIONS, transaction=last["batch_id"])
        crash_point("maintain.snapshot")
        sizes = {name: sum(getattr(file, name) for file in files) for name in ("rows", "bytes")}
        snapshot = {"batch_id": last["batch_id"], **sizes}
    _drop_state_rows(home, last["batch_id"])
    return snapshot


def _snapshot_bucket(context: AnswerContext, bucket: int) -> DataFile | None:
    with open_previous_state(context, bucket, context.queries()) as state:
        return write_snapshot(Home(context.home), context.previous.batch_id, bucket, read_parts(state, READ_ROWS))


def _drop_state_rows(home: Home, last: int) -> None:
    """Drop files of state rows and boundaries up to the batch of the last snapshot but one; last: that of the last."""
    batches = {file.high["batch_id"] for file in list_data_files(home, names.ANSWERS)}
    bound = max((batch for batch in batches if batch < last), default=0)
    files = [*list_state_files(home, -1, bound), *list_boundary_files(home, -1, bound)]
    files = [file for file in files if file.high["batch_id"] <= bound]
    if files:
        commit_files(home, names.ANSWER_LOG, [], files, application=TRANSACTIONS, transaction=bound)
        crash_point("maintain.state_dropped")
