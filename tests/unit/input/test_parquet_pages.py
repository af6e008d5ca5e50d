"""Bounds on the texts of Parquet columns, from page headers: never below the longest text that is repeated."""

import io
import random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.input.parquet_batches import LongestText, TooManyBytes, UnreadableHeader, find_longest_text, read_pages

TEXTS = ["short", "a text of 19 bytes.", "x" * 5_000, "short"] * 50
VERSIONS = ({}, {"data_page_version": "2.0"}, {"compression": "zstd", "data_page_size": 100, "write_batch_size": 10})


def written(texts: list[str | None], **options: Any) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), content, **options)
    return content.getvalue()


def longest_in(content: bytes, dictionary: pa.Array | None, short: int = 0) -> LongestText:
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    return find_longest_text(io.BytesIO(content), column, lambda: dictionary, short)


@pytest.mark.parametrize("options", VERSIONS)
def test_all_pages_of_a_column_are_read(options: dict[str, Any]) -> None:
    content = written([*TEXTS, None, ""], **options)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    first, *others = read_pages(io.BytesIO(content), column)
    assert (first.kind, first.values) == (2, 4) and first.bytes > 5_000
    assert {page.kind for page in others} == {3 if "data_page_version" in options else 0}
    assert sum(page.values for page in others) == column.num_values == 202
    assert sum(page.bytes for page in (first, *others)) <= column.total_uncompressed_size


@pytest.mark.parametrize("options", VERSIONS)
def test_the_longest_text_of_a_dictionary(options: dict[str, Any]) -> None:
    content = written(TEXTS, **options)
    size = next(read_pages(io.BytesIO(content), pq.read_metadata(io.BytesIO(content)).row_group(0).column(0))).bytes
    assert longest_in(content, pa.array(TEXTS[:3])) == LongestText(5_000, by_dictionary=True)
    for incomplete in (None, pa.array(TEXTS[:2])):
        assert longest_in(content, incomplete) == LongestText(size, by_dictionary=True)
    assert longest_in(content, None, short=size) == LongestText(size, by_dictionary=True)


def test_pages_that_store_what_they_decode_to_repeat_no_text() -> None:
    assert longest_in(written(TEXTS, use_dictionary=False), None) == LongestText(0, by_dictionary=True)
    other = written(TEXTS, use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"})
    assert longest_in(other, None) == LongestText(0, by_dictionary=False)


def test_prefixes_of_the_text_before_may_be_as_long_as_all_texts() -> None:
    texts = ["y" * 9_000] * 100
    content = written(texts, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    longest = longest_in(content, None)
    assert 9_000 <= longest.bytes < 12_000 and not longest.by_dictionary


def test_damaged_headers_give_a_bound_or_an_error_of_their_own() -> None:
    content = written(TEXTS, data_page_size=100, write_batch_size=10)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    rnd = random.Random(1)
    for _ in range(2_000):
        damaged = bytearray(content)
        for _ in range(rnd.randint(1, 9)):
            damaged[rnd.randrange(4, column.total_compressed_size)] = rnd.randrange(256)
        try:
            pages = list(read_pages(io.BytesIO(damaged), column))
            assert all(page.bytes >= 0 and page.values >= 0 for page in pages)
        except UnreadableHeader:
            longest = find_longest_text(io.BytesIO(damaged), column, lambda: None, 0)
            assert longest.bytes >= column.total_uncompressed_size and not longest.by_dictionary


def test_a_column_of_too_many_pages_has_the_bound_of_all_its_texts() -> None:
    content = written(["a"] * 11_000, data_page_size=1, write_batch_size=1, use_dictionary=False)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    with pytest.raises(UnreadableHeader, match="more than 10000 pages"):
        list(read_pages(io.BytesIO(content), column))
    assert longest_in(content, None).bytes >= column.total_uncompressed_size


@pytest.mark.parametrize(
    "header",
    [
        b"\x15\x00\x15\xff\xff\xff\xff\xff\x7f",  # a page of terabytes
        b"\x15\x00\x15" + b"\xff" * 30,  # an integer without end
        b"\x15\x00\x15\x01\x15\x02",  # a size below zero
        b"\x15\x00\x15\x02\x15\x02\x2c\x15\x01\x15\x00\x00\x00",  # a number of values below zero
        b"\x1c" * 50,  # structs in structs
        b"\x19\xfc",  # a list
        b"\x11" * 5_000,  # fields without end
        b"\x18\xff\xff\xff\xff\x7f",  # a text that is longer than the file
        b"",
    ],
)
def test_odd_headers_are_unreadable(header: bytes) -> None:
    content = written(TEXTS)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    with pytest.raises(UnreadableHeader):
        list(read_pages(io.BytesIO(b"PAR1" + header), column))


@pytest.mark.parametrize(
    "header, reason",
    [
        (b"\x15\x02\x15\x02\x15\x02\x05\x04\x02\x00", "a field twice"),
        (b"\x15\x02\x15\x02\x06\x04\x02\x15\x02\x00", "a field twice"),  # of another type, which Arrow skips
        (b"\x15\x02\x15\x02\x15\x02\x05\x84\x80\x08\x02\x00", "of more than 16 bits"),  # 2 + 65,536 is 2 to Arrow
        (b"\x15\x84\x80\x80\x80\x20\x15\x02\x15\x02\x00", "of more than 32 bits"),  # 2 + 2**32 is 2 to Arrow
    ],
)
def test_headers_that_arrow_understands_differently_are_unreadable(header: bytes, reason: str) -> None:
    content = written(TEXTS)
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    with pytest.raises(UnreadableHeader, match=reason):
        next(read_pages(io.BytesIO(b"PAR1" + header), column))


@pytest.mark.parametrize("field", [b"\x19\x43\0\0\0\0", b"\x06\x04\x82\x80\0\x21"])
def test_a_header_that_only_arrow_reads_gives_no_bound_of_the_footer(field: bytes) -> None:
    """The checksum becomes a list, or another size of a type that Arrow skips, and the footer states a wrong size."""
    content = bytearray(written(TEXTS, write_page_checksum=True, write_statistics=False, compression="none"))
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    checksum = next(at for at in range(4, 40) if content[at] == 0x15 and all(b > 127 for b in content[at + 1 : at + 5]))
    content[checksum : checksum + 6] = field
    assert pq.read_table(pa.BufferReader(bytes(content))).column("text").to_pylist() == TEXTS
    offsets = ("data_page_offset", "dictionary_page_offset", "total_compressed_size", "num_values")
    lying = SimpleNamespace(total_uncompressed_size=1, **{name: getattr(column, name) for name in offsets})
    assert find_longest_text(io.BytesIO(content), lying, lambda: None, 0).bytes > 1 << 40


def test_many_pages_are_read_if_they_have_many_values() -> None:
    content = written(["a"] * 240_000, data_page_size=1, write_batch_size=16, use_dictionary=False)
    assert longest_in(content, None) == LongestText(0, by_dictionary=True)


def test_pages_of_more_bytes_than_allowed_are_refused() -> None:
    content = written(TEXTS, use_dictionary=False, compression="zstd")
    column = pq.read_metadata(io.BytesIO(content)).row_group(0).column(0)
    assert find_longest_text(io.BytesIO(content), column, lambda: None, 0, 1_000_000).bytes == 0
    with pytest.raises(TooManyBytes):
        find_longest_text(io.BytesIO(content), column, lambda: None, 0, 100_000)
