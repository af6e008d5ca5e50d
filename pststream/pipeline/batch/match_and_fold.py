"""Route and match the objects of a batch, and fold the candidates of subscriptions with memory into their answers.

The chain has three stages: route, match by worker, fold by bucket. The second stage has these parts: one for each
worker; one that receives the greatest ts of the objects from the routing tasks and sends it to every bucket; and, with
a plan of `topk`, one for each of its units. Separate tasks of the first stage send the objects with their words to
these units.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pststream.base import names
from pststream.engine.contract import ReceivedRows, SentRows, Stage
from pststream.engine.running_engine import get_engine
from pststream.engine.task_context import TaskContext
from pststream.pipeline.answers.answer_context import AnswerContext
from pststream.pipeline.answers.fold_bucket import BucketReport, fold_bucket, send_latest
from pststream.pipeline.answers.unit_candidates import (
    MessageScan,
    count_units,
    find_unit_candidates,
    message_scans,
    send_messages,
)
from pststream.pipeline.batch.match_task import match_and_send
from pststream.pipeline.batch.route_task import ROUTE_COUNTS, ObjectScan, route_objects
from pststream.settings import Settings


@dataclass(frozen=True)
class _EveryBucket:
    """A task that makes every bucket run, also in a batch without objects."""

    weight: float = 0.0


def match_and_fold(
    settings: Settings, context: TaskContext, answers: AnswerContext, scans: list[ObjectScan], after_key: int
) -> list[BucketReport]:
    """Match the objects of the scans and fold the answers; return a report for each bucket, with those of workers.

    after_key: stored objects meet only subscriptions with a greater key
    """
    return get_engine(settings).run_shuffled(
        [*scans, _EveryBucket(), *message_scans(answers)],
        partial(_send, context, answers, after_key),
        [
            Stage(context.workers + 1 + count_units(answers), partial(_match_or_search, context, answers, after_key)),
            Stage(answers.buckets, partial(fold_bucket, answers)),
        ],
    )


def _send(
    context: TaskContext, answers: AnswerContext, after_key: int, task: ObjectScan | MessageScan | _EveryBucket
) -> Iterator[SentRows]:
    if isinstance(task, MessageScan):
        yield from send_messages(answers, context.workers + 1, task)
        return
    if isinstance(task, _EveryBucket):
        yield context.workers, ROUTE_COUNTS, pa.record_batch({"latest": pa.array([names.NO_TIME], pa.int64())})
        return
    for part, tag, rows in route_objects(context, after_key, task):
        yield part, tag, rows
        if tag == ROUTE_COUNTS:
            yield context.workers, tag, rows


def _match_or_search(
    context: TaskContext, answers: AnswerContext, after_key: int, part: int, received: ReceivedRows
) -> Iterator[SentRows]:
    if part < context.workers:
        yield from match_and_send(context, after_key, answers.buckets, part, received)
    elif part == context.workers:
        yield from send_latest(answers.buckets, (rows.column("latest")[0].as_py() for _, rows in received))
    else:
        yield from find_unit_candidates(answers, part - context.workers - 1, received)
