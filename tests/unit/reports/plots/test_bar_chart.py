"""Bars stand on the axis, are as high as their values, and stay within the chart."""

import pytest

from pststream.reports.plots.bar_chart import HEIGHT, WIDTH, BarValue, draw_bar_chart, round_up


def test_segments_are_stacked_in_proportion_to_their_values() -> None:
    bars = [BarValue(1, [2.0, 1.0], "one"), BarValue(2, [0.0, 3.0], "two")]
    chart = draw_bar_chart("Seconds", bars, ["s0", "s1"], lambda value: f"{value:g} s")
    (low, high), (only,) = (bar.segments for bar in chart.bars)
    assert (low.style, high.style, only.style) == ("s0", "s1", "s1")
    assert float(low.height) == pytest.approx(2 * float(high.height), abs=0.02)
    assert float(low.y) == pytest.approx(float(high.y) + float(high.height), abs=0.02)
    assert float(only.y) == pytest.approx(float(high.y), abs=0.02)
    assert [tick.text for tick in chart.ticks] == ["0 s", "1.5 s", "3 s"]
    assert chart.label == "Seconds, batches 1 to 2" and [name.text for name in chart.names] == ["1", "2"]


def test_an_axis_may_begin_above_zero_and_a_line_divides_the_bars() -> None:
    bars = [BarValue(batch, [value], "") for batch, value in ((7, 1.0), (8, 2.0))]
    chart = draw_bar_chart("Balance", bars, ["s1"], str, divided=[8], origin=1.0)
    assert chart.bars[0].segments == [] and len(chart.bars[1].segments) == 1
    assert chart.dividers.count("M") == 1
    assert [tick.text for tick in chart.ticks] == ["1.0", "1.5", "2.0"]


def test_many_bars_stay_within_the_chart_with_few_names() -> None:
    chart = draw_bar_chart("x", [BarValue(batch, [batch], "") for batch in range(1, 61)], ["s1"], str)
    ends = [float(segment.x) + float(segment.width) for bar in chart.bars for segment in bar.segments]
    assert max(ends) <= WIDTH and len(chart.names) == 12
    assert all(float(segment.y) + float(segment.height) < HEIGHT for bar in chart.bars for segment in bar.segments)


@pytest.mark.parametrize(("value", "top"), [(0.0, 0.001), (0.7, 0.8), (1.0, 1.0), (13.5, 15.0), (52_400, 60_000)])
def test_the_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert round_up(value) == top
