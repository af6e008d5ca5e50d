"""CSV against Python's csv module, block cuts included, and the files that are not quite CSV."""

import gzip
import io
import re
from pathlib import Path

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from pststream.base.errors import InputFileError
from pststream.input import csv_reader
from pststream.input.readers import read_chunks
from pststream.input.row_chunks import ColumnChunk, Reject
from tests.fuzz.cases import examples
from tests.oracles import rows as slow

SOURCES = {"text": ["b"], "object_id": ["a"]}
ReadRows = tuple[dict[int, dict[str, str]], dict[int, Reject]]


def read(path: Path, sources: dict[str, list[str]] | None = None) -> ReadRows:
    return collected(read_chunks(str(path), None, sources or SOURCES))


def collected(chunks: list[ColumnChunk]) -> ReadRows:
    rows: dict[int, dict[str, str]] = {}
    rejects: dict[int, Reject] = {}
    for chunk in chunks:
        rows.update(zip(chunk.rows.tolist(), chunk.table.to_pylist(), strict=True))
        rejects.update({reject.row: reject for reject in chunk.rejected})
    return rows, rejects


def written(tmp_path: Path, content: bytes | str, name: str = "x.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@given(st.text(st.sampled_from('xé,"\n\r'), max_size=60), st.integers(1, 9), st.integers(1, 4))
@examples(500)
@example('"', 1, 1)
@example('x,"x\n"\r\nx,x', 2, 1)
@example("x,x\r", 4, 1)
def test_records_are_those_of_the_csv_module(body: str, block: int, most: int) -> None:
    content = "a,b\n" + body
    if opens_a_quote_for_ever(body):
        return
    stream = Stream(content.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "BLOCK_BYTES", block)
        patch.setattr(csv_reader, "MAX_CHUNK_ROWS", most)
        patch.setattr(csv_reader, "ByteStream", lambda path: stream)
        rows, rejects = collected(list(csv_reader.read_csv("x.csv", SOURCES)))
    expected = slow.csv_rows(content)
    assert rows == {n: {"b": row["b"], "a": row["a"]} for n, row in expected.items() if row is not None}
    assert set(rejects) == {n for n, row in expected.items() if row is None}


class Stream(io.BytesIO):
    """Bytes in place of a file."""


def opens_a_quote_for_ever(body: str) -> bool:
    """Whether the last quoted field has no end: a closing quote added there would change nothing."""
    return len(slow.csv_records("a,b\n" + body)) != len(slow.csv_records("a,b\n" + body + "\nx")) - 1 or (
        slow.csv_records("a,b\n" + body + "\nx")[-1] != ["x"]
    )


CLEAN = 'a,b\n1,tea\n2,"milk, ""white""\nand sugar"\n3,\n'
CLEAN_ROWS = {1: "tea", 2: 'milk, "white"\nand sugar', 3: ""}


@pytest.mark.parametrize(
    "content",
    [
        CLEAN.encode(),
        CLEAN.rstrip("\n").encode(),
        b"\xef\xbb\xbf" + CLEAN.encode(),
        CLEAN.replace("\n3", "\n\n\n3").encode(),
        ("\n" + CLEAN).encode(),
        CLEAN.replace("a,b", '"a" , b').encode(),
    ],
)
def test_files_that_say_the_same(tmp_path: Path, content: bytes) -> None:
    rows, rejects = read(written(tmp_path, content))
    assert {n: row["b"] for n, row in rows.items()} == CLEAN_ROWS
    assert not rejects


@pytest.mark.parametrize("name", ["x.csv.gz", "x.csv.zst"])
def test_compressed_files(tmp_path: Path, name: str) -> None:
    pack = gzip.compress if name.endswith("gz") else zstandard.ZstdCompressor().compress
    rows, _ = read(written(tmp_path, pack(CLEAN.encode()), name))
    assert {n: row["b"] for n, row in rows.items()} == CLEAN_ROWS
    whole = pack(b"a,b\n" + b"".join(b"%d,%d\n" % (n * n, n) for n in range(20_000)))
    for cut in (len(whole) - 3, len(whole) // 2):
        with pytest.raises(InputFileError, match="cannot be decompressed") as caught:
            read(written(tmp_path, whole[:cut], name))
        assert caught.value.exit_code == 2


def test_files_without_rows(tmp_path: Path) -> None:
    for content in ("a,b\n", "a,b", "", "\n\n"):
        assert read(written(tmp_path, content)) == ({}, {})


def test_rows_that_cannot_be_decoded_leave_the_others_alone(tmp_path: Path) -> None:
    rows, rejects = read(written(tmp_path, b"c,a,b\n-,1,x\n-,2\n-,3,\xff\xfe\n\xff,4,y\n-,5,6,7\n-,6,\0z\n"))
    assert {n: row["b"] for n, row in rows.items()} == {1: "x", 4: "y", 6: "\0z"}
    assert {n: (r.field, r.reason) for n, r in rejects.items()} == {
        2: ("", "wrong_field_count"),
        3: ("b", "invalid_utf8"),
        5: ("", "wrong_field_count"),
    }
    assert (rejects[2].raw, rejects[3].raw) == ("-,2", r"\xff\xfe")
    assert "2 fields, the header 3" in rejects[2].detail


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_a_quote_that_is_never_closed_costs_one_row_whatever_ends_lines(tmp_path: Path, end: str) -> None:
    rows, rejects = read(written(tmp_path, end.join(["a,b", "1,x", '2,"y', "3,z", "4,w", ""])))
    assert {n: row["b"] for n, row in rows.items()} == {1: "x", 3: "z", 4: "w"}
    assert (rejects[2].reason, rejects[2].raw) == ("unclosed_quote", '2,"y')


def test_a_header_that_the_csv_module_does_not_take(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="header cannot be read"):
        read(written(tmp_path, f'"a{"x" * 200_000}",b\n1,x\n'))


def test_too_many_quotes_that_are_never_closed_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="row 17: a quote opens and is never closed"):
        read(written(tmp_path, "a,b\n" + 'x"y,"z\n' * 100))


def test_long_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * 10_000_000
    rows, _ = read(written(tmp_path, f'a,b\n1,{long}\n2,"{long}"\n3,y\n'))
    assert [len(row["b"]) for row in rows.values()] == [10_000_000, 10_000_000, 1]
    monkeypatch.setattr(csv_reader, "MAX_ROW_BYTES", 1_000_000)
    with pytest.raises(InputFileError, match="row 1 is longer than 1000000 bytes"):
        read(written(tmp_path, f"a,b\n1,{long}\n"))
    with pytest.raises(InputFileError, match="first line does not end"):
        read(written(tmp_path, long))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "the header is not"),
        (bytes(range(256)) * 20, "binary"),
        (b"PAR1....", "Parquet"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("größe,b\n".encode("latin-1"), "UTF-8"),
        (b'a,"b\n1,2\n', "never closed"),
        (b"a,c\n1,2\n", re.escape("no column b (for text); it has: a, c")),
        (b"a;b\n1;2\n", "no column b"),
        (b"a,b,b\n", "column b occurs more than once"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(InputFileError, match=reason) as caught:
        read(written(tmp_path, content))
    assert "x.csv" in str(caught.value)


def test_refusals_have_a_remedy(tmp_path: Path) -> None:
    def hint(content: str, sources: dict[str, list[str]]) -> str:
        with pytest.raises(InputFileError) as caught:
            read(written(tmp_path, content), sources)
        return caught.value.hint

    assert "--column ts=NAME" in hint("a,b\n", {"ts": ["ts"]})
    assert "--constant ts=VALUE" in hint("a,b\n", {"ts": ["ts"]})
    assert "--column object_id=@row" in hint("a,b\n", {"object_id": ["object_id"]})
    assert "--constant" not in hint("a,b\n", {"object_id": ["object_id"]})
    assert "semicolon-separated" in hint("a;b\n", {"text": ["b"]})
