"""docs/tables.md says of every table what `state/tables.py` declares.

After a change of the tables, `python -m tests.unit.state.test_tables_doc` rewrites that part of the page.
"""

import re
from pathlib import Path

import pyarrow as pa

from pststream.domain.arrow_columns import TIME
from pststream.reports.views.definitions import VIEWS
from pststream.reports.views.dialects import DUCKDB
from pststream.state.table_types import Table
from pststream.state.tables import TABLES

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def rendered() -> str:
    """Return the generated part of the page."""
    return "\n".join(section(table) for table in TABLES.values())


def section(table: Table) -> str:
    """A table's heading, its meaning, key and writer, and its columns."""
    key = ", ".join(f"`{name}`" for name in table.key)
    files = (
        f" Files are partitioned by {', '.join(f'`{name}`' for name in table.partitions)}." if table.partitions else ""
    )
    writer = {"spark": "Spark", "control": "the driver, through delta-rs"}[table.writer]
    lines = [
        f"### {table.name}\n",
        f"{sentence(table.meaning)} Key: {key}.{files} Written by {writer}.\n",
        "| column | type | null | meaning |",
        "|---|---|---|---|",
    ]
    for column in table.columns:
        null = "yes" if column.nullable else ""
        lines.append(f"| `{column.name}` | {type_name(column.type)} | {null} | {escaped(column.meaning)} |")
    return "\n".join(lines) + "\n"


def type_name(kind: pa.DataType) -> str:
    """A type as SQL and Delta call it."""
    if pa.types.is_list(kind):
        return f"array&lt;{type_name(kind.value_type)}&gt;"
    if pa.types.is_map(kind):
        return f"map&lt;{type_name(kind.key_type)}, {type_name(kind.item_type)}&gt;"
    if pa.types.is_struct(kind):
        return f"struct&lt;{', '.join(f'{field.name}: {type_name(field.type)}' for field in kind)}&gt;"
    known = {
        pa.int64(): "bigint",
        pa.int32(): "integer",
        pa.float64(): "double",
        pa.float32(): "float",
        pa.string(): "string",
        pa.bool_(): "boolean",
        TIME: "timestamp",
    }
    return known[kind]


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return escaped(text[0].upper() + text[1:] + ".")


def escaped(text: str) -> str:
    """As Markdown shows it in a table."""
    return text.replace("|", "\\|").replace("<<", "&lt;&lt;")


def test_the_page_says_what_is_declared() -> None:
    part = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert part.strip() == rendered().strip(), "run: python -m tests.unit.state.test_tables_doc"


def test_no_column_has_a_name_that_sql_reserves() -> None:
    columns = {column.name for table in TABLES.values() for column in table.columns}
    columns |= {
        column for view in VIEWS for column in re.findall(r"\w+", VIEWS[view](DUCKDB, str).partition("FROM")[0])
    }
    assert not columns & {"at", "limit"}


def write_page() -> None:
    """Rewrite the generated part of the page."""
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{rendered()}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    write_page()
