"""Prepare a page's section on micro-batches: a chart of the seconds of each step, a table of the latest batches."""

from typing import NamedTuple

from pststream.base.format_values import counted, duration
from pststream.reports.plots.bar_chart import BarChart, BarValue, draw_bar_chart, segment_style
from pststream.reports.reading.batch_history import BatchHistory, BatchView

_LISTED = 25


class Batches(NamedTuple):
    """The latest batches as a chart and as rows.

    chart       None if no batch took any time
    steps       the steps in the order of their colours
    rows        the latest batches, newest first
    unfinished  a batch that was started and is not done
    total       batches of the home
    """

    chart: BarChart | None
    steps: list[str]
    rows: list[BatchView]
    unfinished: int | None
    total: int


def prepare_batches(history: BatchHistory) -> Batches:
    """Prepare the latest batches of a home."""
    steps = list(dict.fromkeys(step for batch in history.batches for step in batch.seconds))
    rows = list(reversed(history.batches[-_LISTED:]))
    return Batches(_chart(history.batches, steps), steps, rows, history.unfinished, history.totals.batches)


def _chart(batches: tuple[BatchView, ...], steps: list[str]) -> BarChart | None:
    if not any(batch.duration > 0 for batch in batches):
        return None
    bars = [
        BarValue(batch.batch_id, [batch.seconds.get(step, 0.0) for step in steps], _tip(batch)) for batch in batches
    ]
    styles = [segment_style(number) for number in range(len(steps))]
    return draw_bar_chart("Seconds of each step", bars, styles, lambda value: f"{value:g} s")


def _tip(batch: BatchView) -> str:
    head = f"Batch {batch.batch_id}: {counted(batch.objects, 'object')}, {duration(batch.duration)}"
    return "\n".join([head, *(f"{step}: {duration(value)}" for step, value in batch.seconds.items())])
