"""Write hostile input files of each kind, and compare what an ingest did with what it must do with each of them.

The catalogue is used by the benchmark `hostile` and by the tests (tests/fuzz).
"""

import datetime as dt
import gzip
import io
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.input import input_files
from pststream.input.row_chunks import MAX_ROW_BYTES
from pststream.state import quarantine
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from pststream.tables.ledgers import read_files

HEADER = "object_id,ts,lon,lat,text\n"
WORD = "hostilefile"
"""The text of the good rows; no subscription of others has this word."""

JUDGED, QUARANTINED, SKIPPED, SET_ASIDE = "judged", "quarantined", "skipped", "set aside"
"""Verdicts: each row is accepted or rejected; the file is in quarantine; it is not opened; a row is accepted, and set
aside later.
"""


@dataclass(frozen=True)
class Rows:
    """Makes rows that are good but for some fields; ids differ by `number`."""

    number: int
    ts: str

    def thing(self, name: str = "good", **changes: Any) -> dict[str, Any]:
        """Return an object."""
        good = {"object_id": f"hostile-{self.number}-{name}", "ts": self.ts, "lon": 1.0, "lat": 2.0, "text": WORD}
        return good | changes

    def request(self, name: str = "good", **changes: Any) -> dict[str, Any]:
        """Return an insertion, whose region has no object."""
        good = {"op": "insert", "subscription_id": f"hostile-{self.number}-{name}", "keywords": WORD}
        return good | {"bbox": [-179.0, -89.0, -178.9, -88.9], "created_at": self.ts} | changes

    def csv(self, *changes: dict[str, Any]) -> str:
        """Return a CSV file with a good row, and then one for each of `changes`."""
        rows = [self.thing(), *(self.thing(f"odd-{place}", **one) for place, one in enumerate(changes))]
        return HEADER + "".join(",".join(map(str, row.values())) + "\n" for row in rows)

    def objects(self, *changes: dict[str, Any]) -> str:
        """Return the same in JSON Lines."""
        return _lines(self.thing(), *(self.thing(f"odd-{place}", **one) for place, one in enumerate(changes)))

    def requests(self, *changes: dict[str, Any]) -> str:
        """Return the same of requests."""
        return _lines(self.request(), *(self.request(f"odd-{place}", **one) for place, one in enumerate(changes)))


@dataclass(frozen=True)
class HostileFile:
    """A hostile file, and what an ingest must do with it.

    name      ends like the format that it claims
    kind      objects or requests
    content   returns its content for a path, or None if it has written the file there
    verdict   one of JUDGED, QUARANTINED, SKIPPED, SET_ASIDE
    reason    reason code of the row that is rejected or set aside, or a part of the reason of the quarantine
    accepted  rows
    """

    name: str
    kind: str
    content: Callable[[Rows, Path], str | bytes | None]
    verdict: str
    reason: str = ""
    accepted: int = 0

    @property
    def rejected(self) -> int:
        """The number of rejected rows."""
        return int(self.verdict == JUDGED and self.reason != "")

    def write(self, path: Path, rows: Rows) -> None:
        """Write the file; a link or a pipe is made in its place."""
        content = self.content(rows, path)
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def _lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _parquet(rows: Rows) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([rows.thing(str(place)) for place in range(500)]), content)
    return content.getvalue()


def _repeated(rows: Rows, path: Path) -> None:
    """Write a Parquet file of some kilobytes that decodes to more than is allowed: one value many times."""
    text = "x" * (1 << 10)
    count = 2 * max(input_files.ALWAYS_ALLOWED_BYTES, MAX_ROW_BYTES) // len(text)
    columns = {name: pa.repeat(value, count) for name, value in rows.thing().items() if name != "text"}
    texts = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), [text])
    pq.write_table(pa.table({**columns, "text": texts}), path)


def _long_texts(in_lists: bool, rows: Rows, path: Path) -> None:
    """Write a Parquet file of some kilobytes with one text of a megabyte in each row, which a dictionary has once."""
    count = 20_000
    columns = {name: pa.repeat(value, count) for name, value in rows.thing().items() if name != "text"}
    texts = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), ["x" * (1 << 20)])
    if in_lists:
        texts = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), texts)
    pq.write_table(pa.table({**columns, "text": texts}), path, store_schema=False)


def _hidden_size(rows: Rows, path: Path) -> None:
    """Write a Parquet file of some kilobytes with 384 MiB of texts, of which each row group says that it has little."""
    count, groups = 8, 8
    columns = {name: [value] * count for name, value in rows.thing().items()}
    table = pa.table(columns | {"text": ["x" * (6 << 20)] * count})
    content = io.BytesIO()
    with pq.ParquetWriter(
        content, table.schema, use_dictionary=False, compression="zstd", write_statistics=False
    ) as file:
        for _ in range(groups):
            file.write_table(table)
    size = pq.read_metadata(content).row_group(0).total_byte_size
    honest, less = (bytes([2 * n >> 7 * place & 127 | 128 for place in range(3)] + [n >> 20]) for n in (size, 1000))
    path.write_bytes(content.getvalue().replace(honest, less))


def _many_values(field: str, rows: Rows, _: Path) -> str:
    """Return an object with 8 MiB of lists in a field, which Python takes 200 MB for, and a good one."""
    line = json.dumps(rows.thing("odd", **{field: []}))
    return line.replace("[]", "[" + "[]," * 2_700_000 + "[]]") + "\n" + rows.objects()


def _expanding(rows: Rows, path: Path) -> None:
    """Write a compressed file that begins like Parquet and decompresses to more than is allowed."""
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "gzip") as stream:
        stream.write(b"PAR1")
        for _ in range((input_files.ALWAYS_ALLOWED_BYTES >> 20) + 1):
            stream.write(bytes(1 << 20))


def _bomb(rows: Rows, path: Path) -> None:
    """Write a compressed CSV file that decompresses to more than is allowed, in rows that are cheap to reject."""
    block = ",".join(map(str, rows.thing(text="x" * (1 << 21)).values())).encode() + b"\n"
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
        stream.write(HEADER.encode())
        for _ in range(input_files.ALWAYS_ALLOWED_BYTES // len(block) + 2):
            stream.write(block)


def _endless(begin: str, path: Path) -> None:
    """Write a file with a row that is longer than any may be."""
    block = b"x" * (1 << 20)
    with open(path, "wb") as file:
        file.write(begin.encode())
        for _ in range(MAX_ROW_BYTES // len(block) + 1):
            file.write(block)


def _future(rows: Rows, _: Path) -> str:
    return rows.csv({"ts": (utc_now() + dt.timedelta(days=6)).isoformat()})


def _crossed(rows: Rows, _: Path) -> str:
    """Return an expression whose conjunctive normal form has 2^40 clauses."""
    return rows.requests({"keywords": " or ".join(f"(a{place} and b{place})" for place in range(40))})


def _many_corners(rows: Rows, _: Path) -> str:
    corners = [[place / 1e5, place % 2 / 1e3] for place in range(50_000)]
    polygon = {"type": "Polygon", "coordinates": [[*corners, [0.0, 1.0], corners[0]]]}
    return rows.requests({"bbox": None, "geometry": polygon})


CATALOGUE = (
    # Rows
    HostileFile(
        "long-number.csv", "objects", lambda r, _: r.csv({"lon": "1" * 24_000 + "x"}), JUDGED, "not_a_number", 1
    ),
    HostileFile(
        "long-number.jsonl", "objects", lambda r, _: r.objects({"lat": "1" * 24_000 + "x"}), JUDGED, "not_a_number", 1
    ),
    HostileFile("long-id.csv", "objects", lambda r, _: r.csv({"object_id": "i" * 5_000_000}), JUDGED, "id_too_long", 1),
    HostileFile(
        "long-id.jsonl", "objects", lambda r, _: r.objects({"object_id": "i" * 5_000_000}), JUDGED, "id_too_long", 1
    ),
    HostileFile(
        "long-id.jsonl", "requests", lambda r, _: r.requests({"subscription_id": "i" * 2_000}), JUDGED, "id_too_long", 1
    ),
    HostileFile("long-text.csv", "objects", lambda r, _: r.csv({"text": "x " * 1_000_000}), JUDGED, "text_too_long", 1),
    HostileFile(
        "payload.jsonl",
        "requests",
        lambda r, _: r.requests({"payload": {"note": "n" * 100_000}}),
        JUDGED,
        "payload_too_long",
        1,
    ),
    HostileFile(
        "large-payload.jsonl",
        "requests",
        lambda r, _: r.requests({"payload": {"note": "n" * 20_000_000}}),
        JUDGED,
        "row_too_long",
        1,
    ),
    HostileFile("values.jsonl", "objects", partial(_many_values, "text"), JUDGED, "row_too_long", 1),
    HostileFile("other-values.jsonl", "objects", partial(_many_values, "note"), JUDGED, "attributes_too_long", 1),
    HostileFile(
        "nested.jsonl",
        "objects",
        lambda r, _: r.objects() + '{"object_id": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
        JUDGED,
        "nested_too_deeply",
        1,
    ),
    HostileFile(
        "nested.jsonl",
        "requests",
        lambda r, _: r.requests() + '{"payload": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}\n",
        JUDGED,
        "nested_too_deeply",
        1,
    ),
    HostileFile(
        "parentheses.jsonl",
        "requests",
        lambda r, _: r.requests({"keywords": "(" * 40_000 + WORD + ")" * 40_000}),
        JUDGED,
        "unreadable_expression",
        1,
    ),
    HostileFile("crossed.jsonl", "requests", _crossed, JUDGED, "unreadable_expression", 1),
    HostileFile("corners.jsonl", "requests", _many_corners, JUDGED, "unreadable_region", 1),
    HostileFile("future.csv", "objects", _future, JUDGED, "future", 1),
    HostileFile("ancient.csv", "objects", lambda r, _: r.csv({"ts": "1901-01-01T00:00:00Z"}), JUDGED, "late", 1),
    HostileFile(
        "not-utf8.csv",
        "objects",
        lambda r, _: r.csv({"text": "\udcff\udcfe"}).encode("utf-8", "surrogateescape"),
        JUDGED,
        "invalid_utf8",
        1,
    ),
    HostileFile("open-quote.csv", "objects", lambda r, _: r.csv() + 'a,"b' + "\n" * 1000, JUDGED, "unclosed_quote", 1),
    HostileFile(
        "marks.jsonl", "objects", lambda r, _: r.objects({"text": "a" + "\u0301\u0323" * 200_000}), JUDGED, "", 2
    ),
    HostileFile("nul.jsonl", "objects", lambda r, _: r.objects({"text": "a\0b"}), JUDGED, "", 2),
    # Texts that another program takes for code
    HostileFile("formula.csv", "objects", lambda r, _: r.csv({"object_id": f"=cmd|{r.number}!A0"}), JUDGED, "", 2),
    HostileFile(
        "markup.jsonl", "objects", lambda r, _: r.objects({"object_id": f"<script>{r.number}</script>"}), JUDGED, "", 2
    ),
    HostileFile(
        "controls.jsonl", "objects", lambda r, _: r.objects({"object_id": f"\x1b[2J\n{r.number} done"}), JUDGED, "", 2
    ),
    # Files
    HostileFile("endless.csv", "objects", lambda r, path: _endless(r.csv(), path), QUARANTINED, "is longer than"),
    HostileFile(
        "endless.jsonl", "requests", lambda r, path: _endless(r.requests(), path), QUARANTINED, "is longer than"
    ),
    HostileFile("bomb.csv.zst", "objects", _bomb, QUARANTINED, "decompresses to over"),
    HostileFile("repeated.parquet", "objects", _repeated, QUARANTINED, "decodes to over"),
    HostileFile("long-texts.parquet", "objects", partial(_long_texts, False), QUARANTINED, "decodes to over"),
    HostileFile("long-lists.parquet", "objects", partial(_long_texts, True), QUARANTINED, "decodes to over"),
    HostileFile("hidden-size.parquet", "objects", _hidden_size, QUARANTINED, "decodes to over"),
    HostileFile("expanding.parquet.gz", "objects", _expanding, QUARANTINED, "decompresses to over"),
    HostileFile(
        "text.parquet.gz", "objects", lambda r, _: gzip.compress(r.csv().encode()), QUARANTINED, "another format"
    ),
    HostileFile("archive.csv", "objects", lambda r, _: b"PK\x03\x04" + r.csv().encode(), QUARANTINED, "begins like"),
    HostileFile("binary.jsonl", "requests", lambda *_: bytes(range(256)) * 9, QUARANTINED, "begins like"),
    HostileFile("text.parquet", "objects", lambda r, _: r.csv(), QUARANTINED, "not readable as Parquet"),
    HostileFile("cut.parquet", "objects", lambda r, _: _parquet(r)[:-40], QUARANTINED, "not readable as Parquet"),
    HostileFile(
        "cut.csv.gz", "objects", lambda r, _: gzip.compress(r.csv().encode() * 99)[:-30], QUARANTINED, "decompressed"
    ),
    HostileFile("plain.jsonl.gz", "requests", lambda r, _: r.requests(), QUARANTINED, "decompressed"),
    HostileFile("empty.jsonl.zst", "requests", lambda *_: b"", QUARANTINED, "empty, though"),
    HostileFile("columns.csv", "objects", lambda *_: "id,when\n1,2\n", QUARANTINED, "no column"),
    # Names
    HostileFile("new\nline.csv", "objects", lambda r, _: r.csv(), JUDGED, "", 1),
    HostileFile("\x1b[31mred.csv", "objects", lambda r, _: r.csv(), JUDGED, "", 1),
    HostileFile("$(reboot); ' \" & # %2e%2e %00 \\.jsonl", "requests", lambda r, _: r.requests(), JUDGED, "", 1),
    HostileFile(f"{'n' * 200}.csv", "objects", lambda r, _: r.csv(), JUDGED, "", 1),
    HostileFile("not-utf8-\udcff.csv", "objects", lambda r, _: r.csv(), SKIPPED),
    HostileFile("link.csv", "objects", lambda _, path: path.symlink_to("/etc/passwd"), SKIPPED),
    HostileFile("pipe.csv", "objects", lambda _, path: os.mkfifo(path), SKIPPED),
)
"""One file of each kind that docs/security.md names under Input and that any producer can write."""


def find_wrong_verdicts(home: Home, landed: Mapping[str, HostileFile]) -> list[str]:
    """Return a line for each hostile file of which the home has anything but its verdict; landed: by file name."""
    rows = {Path(one["path"]).name: (one["accepted"], one["rejected"]) for one in read_files(home)}
    rejects: dict[str, Counter[str]] = defaultdict(Counter)
    for one in read_table(home.table(names.REJECTS), ["file", "reason"]).to_pylist():
        rejects[Path(one["file"]).name][one["reason"]] += 1
    reasons = {Path(one["path"]).name: "; ".join(one["reasons"]) for one in quarantine.read_entries(home)}
    wrong = []
    for name, file in landed.items():
        happened = f"rows {rows.get(name)}, rejects {dict(rejects[name])}, quarantine {reasons.get(name)}"
        judged = (file.accepted, file.rejected) if file.verdict in (JUDGED, SET_ASIDE) else None
        counts = {file.reason: 1} if file.rejected or file.verdict == SET_ASIDE else {}
        in_quarantine = name in reasons and file.reason in reasons[name]
        as_expected = in_quarantine if file.verdict == QUARANTINED else name not in reasons
        if rows.get(name) != judged or rejects[name] != counts or not as_expected:
            wrong.append(f"{name!r}: {file.verdict} {file.reason} expected, not {happened}")
    return wrong
