"""A figure of bars, one a batch, with the same values as a table for those who do not see it."""

from collections.abc import Sequence

from pststream.reports.plots.html import Markup, element

WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 1100.0, 210.0, 48.0, 24.0, 10.0


def nice(value: float) -> float:
    """The next round number."""
    scale = 1e-3
    while True:
        for step in (1, 1.5, 2, 3, 4, 5, 6, 8):
            if value <= step * scale:
                return round(step * scale, 6)
        scale *= 10


def bar_plot(
    caption: str, unit: str, bars: Sequence[tuple[int, float, str]], dashed: Sequence[int] = (), least: float = 0.0
) -> Markup:
    """A bar for each (batch, value, the value as text).

    dashed: batches before which a line stands; least: where the axis begins.
    """
    top = nice(max(value for _, value, _ in bars))
    tall = HEIGHT - BELOW - ABOVE
    scale = tall / max(top - least, 1e-9)
    slot = min((WIDTH - LEFT) / len(bars), 90.0)
    marks: list[Markup] = []
    for part in (0.0, 0.5, 1.0):
        y = ABOVE + tall * (1 - part)
        marks.append(element("path", d=f"M{LEFT:g} {y:.1f}H{WIDTH:g}", class_="axis"))
        tick = element("text", _tick(least + (top - least) * part), x=LEFT - 6, y=round(y + 4, 1), text_anchor="end")
        marks.append(tick)
    every = max(1, len(bars) // 12)
    for place, (batch, value, text) in enumerate(bars):
        x, high = LEFT + slot * place, max(value - least, 0.0) * scale
        size = {"x": f"{x + slot * 0.15:.1f}", "y": f"{HEIGHT - BELOW - high:.2f}"}
        size |= {"width": f"{slot * 0.7:.1f}", "height": f"{high:.2f}"}
        marks.append(element("rect", class_="s1", data_tip=f"Batch {batch}: {text}", **size))
        if batch in dashed:
            marks.append(element("path", d=f"M{x:.1f} {ABOVE:g}V{HEIGHT - BELOW:g}", class_="axis dashed"))
        if place % every == 0:
            middle = round(x + slot / 2, 1)
            marks.append(element("text", batch, x=middle, y=HEIGHT - 6, text_anchor="middle"))
    label = f"{caption}, batches {bars[0][0]} to {bars[-1][0]}"
    svg = element("svg", marks, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", class_="plot", role="img", aria_label=label)
    body = [element("tr", element("th", batch, scope="row"), element("td", text)) for batch, _, text in reversed(bars)]
    head = element("tr", element("th", "Batch", scope="col"), element("th", unit, scope="col"))
    table = element("table", element("thead", head), element("tbody", body), class_="numbers narrow")
    scroll = element("div", table, class_="scroll tall", tabindex=0, role="region", aria_label=caption)
    told = element("details", element("summary", "As a table"), scroll)
    return element("figure", framed(svg, label), element("figcaption", caption), told)


def framed(svg: Markup, label: str) -> Markup:
    """A plot, which scrolls by itself in a narrow window and so takes the focus."""
    return element("div", svg, class_="drawn", tabindex=0, role="region", aria_label=label)


def _tick(value: float) -> str:
    return f"{value / 1000:g} k" if value >= 10_000 else f"{value:g}"
