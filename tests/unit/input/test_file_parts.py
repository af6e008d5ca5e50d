"""Counting between cuts agrees with the reader of records; small, compressed and odd files are not split."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pststream.input import file_parts
from pststream.input.file_parts import choose_part_bytes, count_range, cut_into_ranges, make_parts, split_row_groups
from pststream.input.row_chunks import FilePart
from pststream.kernels.parsing.records import RECORD, count_lines, count_records, scan_records


@given(st.text(st.sampled_from('xé,"\n\r'), max_size=60), st.integers(0, 60))
@example('"a\n""b",c\r\nd', 3)
def test_records_are_counted_as_they_are_read(text: str, cut: int) -> None:
    """The count does not depend on where the bytes are divided."""
    data = np.frombuffer(text.encode(), np.uint8)
    room = len(data) + 1
    records, fields, places = np.zeros((room, 2), np.int64), np.zeros(room, np.int64), np.zeros((room, 0), np.int64)
    wanted, _, unclosed = scan_records(data, 0, True, np.zeros(0, np.int64), records, fields, places, places)
    first, state, size, longest_before, _ = count_records(data[:cut], RECORD, 0)
    second, state, _, longest, _ = count_records(data[cut:], state, size)
    assert first + second == wanted + unclosed
    assert (state == file_parts.QUOTED) == unclosed
    if not unclosed and wanted:
        assert max(longest_before, longest) == (records[:wanted, 1] - records[:wanted, 0]).max()


@given(st.text(st.sampled_from("x{\n\r"), max_size=60), st.integers(0, 60))
def test_lines_are_counted(text: str, cut: int) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    first, size, longest_before = count_lines(data[:cut], 0)
    second, _, longest = count_lines(data[cut:], size)
    assert first + second == text.count("\n")
    assert max(longest_before, longest) == max(len(line) for line in text.split("\n"))


def parts_of(path: Path, part_bytes: int) -> list[FilePart]:
    return make_parts([count_range(one) for one in cut_into_ranges(str(path), None, part_bytes)])


def test_parts_begin_with_records_and_know_their_row_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    content = "a,b\n" + "".join(f'{n},"line\nline ""{n}"""\n' for n in range(200))
    path.write_text(content)
    parts = parts_of(path, 100)
    assert len(parts) > 20 and parts[0].start == 4 and parts[-1].stop == len(content)
    for part, after in zip(parts, [*parts[1:], None]):
        assert content[part.start :].startswith(f"{part.rows_before},")
        assert after is None or part.stop == after.start


@pytest.mark.parametrize(
    "content",
    [
        'a,b\n1,"x\n' + "2,y\n" * 100,  # a quote that is never closed
        "a,b\n1," + "x" * 400 + "\n" + "2,y\n" * 100,  # a long record
        "a,b\r" + "2,y" * 200,  # no line end where a cut would be
        'a,"b\n' + "2,y\n" * 100,  # a header that does not end
        "a,b\n1,2\n",
        "",
    ],
)
def test_files_for_one_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(file_parts, "MAX_ROW_BYTES", 300)
    monkeypatch.setattr(file_parts, "CUT_BYTES", 20)
    path = tmp_path / "x.csv"
    path.write_text(content)
    assert len(parts_of(path, 50)) <= 1
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n" + np.random.default_rng(0).bytes(1000)))
    assert not cut_into_ranges(str(packed), None, 50)
    assert not cut_into_ranges(str(tmp_path / "none.csv"), None, 50)


def test_parts_and_files_are_few_enough_for_this_process() -> None:
    mib = 1 << 20
    assert choose_part_bytes([1000, 20 * mib]) == 16 * mib
    for sizes in ([128 * mib], [500 * mib], [60 * mib] * 3, [1000] * 7 + [60 * mib]):
        part_bytes = choose_part_bytes(sizes)
        assert 16 * mib <= part_bytes <= 64 * mib
        assert sum(max(round(size / part_bytes), 1) for size in sizes) <= 8
    assert choose_part_bytes([1 << 40]) == choose_part_bytes([1000] * 9) == 64 * mib


def test_row_groups(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"a": list(range(100))}), path, row_group_size=10, use_dictionary=False)
    size = pq.read_metadata(path).row_group(0).total_byte_size
    assert split_row_groups(path, None, 3 * size) == [
        FilePart(0, 3, 0),
        FilePart(3, 6, 30),
        FilePart(6, 9, 60),
        FilePart(9, 10, 90),
    ]
    assert not split_row_groups(path, None, 1 << 20)
    (tmp_path / "y.parquet").write_bytes(b"x" * 5000)
    assert not split_row_groups(str(tmp_path / "y.parquet"), None, 50)
