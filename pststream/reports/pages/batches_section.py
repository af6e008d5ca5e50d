"""The course of the micro-batches: seconds of each step as bars, and a table."""

from pststream.format_values import counted, moment, seconds, short, whole
from pststream.reports.plots.bar_chart import ABOVE, BELOW, HEIGHT, LEFT, WIDTH, framed, nice
from pststream.reports.plots.html import Markup, element, joined
from pststream.reports.reading.batch_history import BatchView, Course

_LISTED = 25


def batches_section(course: Course) -> Markup:
    """The last batches, drawn and listed."""
    if not course.batches:
        return element("p", "No batch is done yet. Run: pststream match", class_="empty")
    steps = list(dict.fromkeys(step for batch in course.batches for step in batch.seconds))
    open_batch = (
        element(
            "p", f"Batch {course.unfinished} has started and is not done; the next match finishes it.", class_="note"
        )
        if course.unfinished is not None
        else None
    )
    head = (
        "Batch",
        "Plan",
        "Objects",
        "Discarded",
        "Requests",
        "Matches",
        "Taken back",
        "Seconds",
        "Objects/s",
        "Done (UTC)",
    )
    rows = [_row(batch) for batch in reversed(course.batches[-_LISTED:])]
    table = element(
        "table",
        element("thead", element("tr", [element("th", title, scope="col") for title in head])),
        element("tbody", rows),
        class_="numbers",
    )
    scroll = element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Batches")
    return joined(open_batch, _plot(course.batches, steps), _older(course), scroll)


def _older(course: Course) -> Markup | None:
    if course.totals.batches <= _LISTED:
        return None
    return element("p", f"The last {_LISTED} of {counted(course.totals.batches, 'batch', 'batches')}:", class_="note")


def _row(batch: BatchView) -> Markup:
    rate = batch.objects / batch.duration if batch.duration > 0 else None
    by_step = ", ".join(f"{step} {seconds(value)}" for step, value in batch.seconds.items())
    cells = [
        whole(batch.plan_version), whole(batch.objects), whole(batch.discarded), whole(batch.requests),
        whole(batch.matches), whole(batch.retractions),
    ]  # fmt: skip
    return element(
        "tr",
        element("th", whole(batch.batch_id), scope="row"),
        [element("td", cell) for cell in cells],
        element("td", f"{batch.duration:.2f}", title=by_step or None),
        element("td", short(rate)),
        element("td", moment(batch.finished_at)),
    )


def _plot(batches: tuple[BatchView, ...], steps: list[str]) -> Markup:
    """Stacked bars, one a batch."""
    most = max((batch.duration for batch in batches), default=0.0)
    if most <= 0:
        return joined()
    top = nice(most)
    tall = HEIGHT - BELOW - ABOVE
    slot = min((WIDTH - LEFT) / len(batches), 90.0)
    marks = []
    for part in (0.0, 0.5, 1.0):
        y = ABOVE + tall * (1 - part)
        marks.append(element("path", d=f"M{LEFT:g} {y:.1f}H{WIDTH:g}", class_="axis"))
        marks.append(element("text", f"{top * part:g} s", x=LEFT - 6, y=round(y + 4, 1), text_anchor="end"))
    bars = [_bar(batch, steps, LEFT + slot * (i + 0.15), slot * 0.7, tall / top) for i, batch in enumerate(batches)]
    every = max(1, len(batches) // 12)
    names = [
        element("text", batch.batch_id, x=round(LEFT + slot * (i + 0.5), 1), y=HEIGHT - 6, text_anchor="middle")
        for i, batch in enumerate(batches)
        if i % every == 0
    ]
    size = f"0 0 {WIDTH:g} {HEIGHT:g}"
    label = f"Seconds of each step, batches {batches[0].batch_id} to {batches[-1].batch_id}"
    svg = element("svg", marks, bars, names, viewBox=size, class_="plot", role="img", aria_label=label)
    keys = [
        element("li", element("span", class_=f"swatch s{i % 8}", aria_hidden="true"), step)
        for i, step in enumerate(steps)
    ]
    return element(
        "figure",
        framed(svg, label),
        element("figcaption", "Seconds of each batch by step", element("ul", keys, class_="key")),
    )


def _bar(batch: BatchView, steps: list[str], x: float, width: float, scale: float) -> Markup:
    parts, y = [], HEIGHT - BELOW
    for number, step in enumerate(steps):
        tall = batch.seconds.get(step, 0.0) * scale
        y -= tall
        if tall > 0:
            parts.append(
                element(
                    "rect",
                    class_=f"s{number % 8}",
                    x=f"{x:.1f}",
                    y=f"{y:.2f}",
                    width=f"{width:.1f}",
                    height=f"{tall:.2f}",
                )
            )
    tip = "\n".join(
        [f"Batch {batch.batch_id}: {whole(batch.objects)} objects, {seconds(batch.duration)}"]
        + [f"{step}: {seconds(value)}" for step, value in batch.seconds.items()]
    )
    return element("g", parts, data_tip=tip)
