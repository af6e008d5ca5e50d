"""Write the parts of the documentation that follow from declarations in the code: `make docs`.

A part stands in its page between `<!-- NAME: begin -->` and `<!-- NAME: end -->`; `PARTS` lists pages and parts. The
page of benchmark results is written whole. One test compares the pages with what is generated here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.results_page import render_folder
from pststream.base import names
from pststream.base.arrow_columns import TIME
from pststream.delivery.sinks.registry import sink_keys
from pststream.input.row_chunks import REASONS
from pststream.reports.commands.metrics import METRICS, PREFIX
from pststream.settings import setting_keys
from pststream.state.tables import TABLES

DOCS = Path(__file__).parents[1] / "docs"

TYPE_NAMES = {
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.float64(): "double",
    pa.float32(): "float",
    pa.string(): "string",
    pa.bool_(): "boolean",
    TIME: "timestamp",
}


def table_of(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"|{'|'.join(cell or ' ' for cell in line)}|\n" for line in lines)


def escaped(text: str) -> str:
    """Return a text as a cell of a table shows it."""
    return text.replace("|", "\\|").replace("<<", "&lt;&lt;")


def settings() -> str:
    """Return the table of the keys of `pststream.toml`."""
    return _keys(setting_keys(), "PSTSTREAM_")


def sinks() -> str:
    """Return the table of the keys of a sink."""
    return _keys(sink_keys(), f"{names.SINK_VARIABLES}<NAME>_")


def _keys(keys: list[Any], prefix: str) -> str:
    rows = []
    for key in keys:
        default = f'`"{key.default}"`' if isinstance(key.default, str) else f"`{key.default}`"
        rows.append((f"`{key.name}`", f"`{prefix}{key.name.upper()}`", default, escaped(key.meaning)))
    return table_of(("key", "environment variable", "default", "meaning"), rows)


def tables() -> str:
    """Return a section for each Delta table: meaning, key, writer, and columns."""
    sections = []
    for table in TABLES.values():
        key = ", ".join(f"`{name}`" for name in table.key)
        parted = ", ".join(f"`{name}`" for name in table.partitions)
        files = f" Files are partitioned by {parted}." if parted else ""
        writer = {"spark": "Spark", "control": "the driver"}[table.writer]
        meaning = escaped(table.meaning[0].upper() + table.meaning[1:])
        rows = [
            (f"`{column.name}`", type_name(column.type), "yes" if column.nullable else "", escaped(column.meaning))
            for column in table.columns
        ]
        columns = table_of(("column", "type", "null", "meaning"), rows)
        sections.append(f"### {table.name}\n\n{meaning}. Key: {key}.{files} Written by {writer}.\n\n{columns}")
    return "\n".join(sections)


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type in SQL and Delta."""
    if pa.types.is_list(kind):
        return f"array&lt;{type_name(kind.value_type)}&gt;"
    if pa.types.is_map(kind):
        return f"map&lt;{type_name(kind.key_type)}, {type_name(kind.item_type)}&gt;"
    if pa.types.is_struct(kind):
        return f"struct&lt;{', '.join(f'{field.name}: {type_name(field.type)}' for field in kind)}&gt;"
    return TYPE_NAMES[kind]


def reasons() -> str:
    """Return the table of the reasons of rejects."""
    return table_of(("reason", "meaning"), [(f"`{code}`", meaning) for code, meaning in REASONS.items()])


def metrics() -> str:
    """Return the table of the metrics of a home."""
    rows = []
    for name, metric in METRICS.items():
        labels = f"{{{', '.join(metric.labels)}}}" if metric.labels else ""
        rows.append((f"`{PREFIX}{name}{labels}`", metric.type, metric.unit, metric.meaning))
    return table_of(("metric", "type", "unit", "meaning"), rows)


PARTS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("settings.md", settings),
    ("settings.md", sinks),
    ("tables.md", tables),
    ("input.md", reasons),
    ("operation.md", metrics),
)
"""The page of each generated part, and the function that returns the part, whose name is that of the part."""


def generated_pages() -> dict[Path, str]:
    """Return the text that each page with a generated part should have."""
    pages = {DOCS / "results" / "README.md": render_folder(DOCS / "results")}
    for page, part in PARTS:
        path = DOCS / page
        begin, end = (f"<!-- {part.__name__}: {edge} -->\n" for edge in ("begin", "end"))
        head, begun, rest = pages.get(path, path.read_text("utf-8")).partition(begin)
        _, ended, tail = rest.partition(end)
        if not (begun and ended):
            raise ValueError(f"{path} has no part {part.__name__}")
        pages[path] = f"{head}{begin}\n{part()}\n{end}{tail}"
    return pages


if __name__ == "__main__":
    for path, text in generated_pages().items():
        path.write_text(text, "utf-8")
