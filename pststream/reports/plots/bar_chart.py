"""Lay out a bar chart for SVG: one bar for each micro-batch, stacked from segments, with an axis and labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WIDTH, HEIGHT = 1100.0, 210.0
_LEFT, _BELOW, _ABOVE = 48.0, 24.0, 10.0
_PLOT_HEIGHT = HEIGHT - _BELOW - _ABOVE
_MAX_BAR_STEP = 90.0
_MAX_LABELS = 12
_COLOURS = 8
_ROUND_NUMBERS = (1, 1.5, 2, 3, 4, 5, 6, 8)


class BarValue(NamedTuple):
    """The data of one bar: its batch, the value of each segment from the axis upwards, and its tooltip."""

    batch_id: int
    values: Sequence[float]
    tip: str


class Segment(NamedTuple):
    """A rectangle of a bar: its CSS class, and its place and size in units of the chart as text."""

    style: str
    x: str
    y: str
    width: str
    height: str


class Bar(NamedTuple):
    """The segments of one batch, and their tooltip."""

    segments: list[Segment]
    tip: str


class Label(NamedTuple):
    """A text at a point of a chart or map, in its units; `width`: how wide it may become, 0 for any width."""

    x: float
    y: float
    text: str
    width: float = 0.0


@dataclass(frozen=True)
class BarChart:
    """A chart WIDTH by HEIGHT units large.

    label       what the chart shows, for those who do not see it
    grid, dividers  path data of horizontal lines, and of vertical dashed lines before some bars
    """

    label: str
    bars: list[Bar]
    ticks: list[Label]
    names: list[Label]
    grid: str
    dividers: str

    @property
    def view_box(self) -> str:
        """The `viewBox` of the SVG."""
        return f"0 0 {WIDTH:g} {HEIGHT:g}"


def draw_bar_chart(
    caption: str,
    bars: Sequence[BarValue],
    styles: Sequence[str],
    tick: Callable[[float], str],
    divided: Sequence[int] = (),
    origin: float = 0.0,
) -> BarChart:
    """Lay out a chart.

    bars:    at least one; all values are at least `origin`, and one is greater than 0
    styles:  CSS class of each segment of a bar
    tick:    formats a value of the axis
    divided: batches with a dashed line before their bar
    origin:  the value where the axis begins
    """
    top = round_up(max(sum(bar.values) for bar in bars))
    step = min((WIDTH - _LEFT) / len(bars), _MAX_BAR_STEP)
    lines = [(_ABOVE + _PLOT_HEIGHT * (1 - part), origin + (top - origin) * part) for part in (0.0, 0.5, 1.0)]
    label_every = max(1, len(bars) // _MAX_LABELS)
    lefts = [_LEFT + step * index for index in range(len(bars))]
    return BarChart(
        label=f"{caption}, batches {bars[0].batch_id} to {bars[-1].batch_id}",
        bars=[_draw_bar(bar, styles, left, step, origin, top) for bar, left in zip(bars, lefts)],
        ticks=[Label(_LEFT - 6, round(y + 4, 1), tick(value)) for y, value in lines],
        names=[
            Label(round(left + step / 2, 1), HEIGHT - 6, str(bar.batch_id))
            for index, (bar, left) in enumerate(zip(bars, lefts))
            if index % label_every == 0
        ],
        grid="".join(f"M{_LEFT:g} {y:.1f}H{WIDTH:g}" for y, _ in lines),
        dividers="".join(
            f"M{left:.1f} {_ABOVE:g}V{HEIGHT - _BELOW:g}"
            for bar, left in zip(bars, lefts)
            if bar.batch_id in divided
        ),
    )  # fmt: skip


def segment_style(number: int) -> str:
    """The CSS class of the segment with this number; the colours repeat."""
    return f"s{number % _COLOURS}"


def round_up(value: float) -> float:
    """The next round number, for the top of an axis."""
    scale = 1e-3
    while True:
        for step in _ROUND_NUMBERS:
            if value <= step * scale:
                return round(step * scale, 6)
        scale *= 10


def _draw_bar(bar: BarValue, styles: Sequence[str], left: float, step: float, origin: float, top: float) -> Bar:
    units = _PLOT_HEIGHT / max(top - origin, 1e-9)
    segments, y = [], HEIGHT - _BELOW
    for index, (value, style) in enumerate(zip(bar.values, styles)):
        height = max(value - (0.0 if index else origin), 0.0) * units
        y -= height
        if height > 0:
            segments.append(
                Segment(style, f"{left + step * 0.15:.1f}", f"{y:.2f}", f"{step * 0.7:.1f}", f"{height:.2f}")
            )
    return Bar(segments, bar.tip)
