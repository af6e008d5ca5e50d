"""Which files a pattern means, and what each is taken for."""

import gzip
import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from pststream.base.errors import InputFileError, UsageError
from pststream.input import input_files
from pststream.input.input_files import ByteStream, check_head, find_files, format_of, open_seekable, sha256_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = [
        "a.csv", "b.JSONL", "c.ndjson.gz", "d.parquet", "e.txt", "f.csv.zst", "g.json", "h.gz", ".hidden.csv", "_x.csv",
        "sub/z.csv", "sub/.git/y.csv", "_temporary/w.csv", "empty/readme",
    ]  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def named(folder: Path, files: list[str]) -> list[str]:
    return [str(Path(file).relative_to(folder)) for file in files]


def test_a_folder_means_the_files_of_known_endings_below_it(folder: Path) -> None:
    expected = ["a.csv", "b.JSONL", "c.ndjson.gz", "d.parquet", "f.csv.zst", "g.json", "sub/z.csv"]
    assert named(folder, find_files([str(folder)])) == expected
    assert named(folder, find_files([folder], "csv")) == ["a.csv", "f.csv.zst", "sub/z.csv"]


def test_globs_and_repeats(folder: Path) -> None:
    assert named(folder, find_files([f"{folder}/*.csv"])) == ["a.csv"]
    assert named(folder, find_files([f"{folder}/**/*.csv"])) == ["a.csv", "sub/z.csv"]
    assert named(folder, find_files([f"{folder}/s*"])) == ["sub/z.csv"]
    assert named(folder, find_files([f"{folder}/sub", f"{folder}/a.csv", f"{folder}/*.csv"])) == ["a.csv", "sub/z.csv"]
    assert named(folder, find_files([f"{folder}/e.*"], "csv")) == ["e.txt"]


def test_a_name_with_glob_characters_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").touch()
    assert find_files([f"{tmp_path}/a[1].csv"]) == [f"{tmp_path}/a[1].csv"]


def test_a_file_given_by_name_needs_a_known_ending_or_a_format(folder: Path) -> None:
    for name in ("e.txt", "h.gz"):
        with pytest.raises(InputFileError, match="--format"):
            find_files([f"{folder}/{name}"])
        assert find_files([f"{folder}/{name}"], "jsonl") == [f"{folder}/{name}"]
    assert named(folder, find_files([f"{folder}/_x.csv"])) == ["_x.csv"]


@pytest.mark.parametrize("pattern", ["nowhere.csv", "*.xlsx", "empty", "nowhere/**"])
def test_what_means_nothing_is_an_error(folder: Path, pattern: str) -> None:
    with pytest.raises(InputFileError) as found:
        find_files([f"{folder}/a.csv", f"{folder}/{pattern}"])
    assert found.value.exit_code == 2
    assert found.value.hint


def test_formats() -> None:
    assert [format_of(name) for name in ("x.CSV", "x.json.zst", "x.parquet.gz")] == ["csv", "jsonl", "parquet"]
    assert format_of("x", "ndjson") == "jsonl"
    with pytest.raises(UsageError, match="xml"):
        format_of("x.csv", "xml")


def test_hashes_are_of_the_bytes_on_disk(tmp_path: Path) -> None:
    content = gzip.compress(b"x" * 100_000)
    (tmp_path / "x.csv.gz").write_bytes(content)
    assert sha256_of(f"{tmp_path}/x.csv.gz") == hashlib.sha256(content).hexdigest()
    with pytest.raises(InputFileError, match="no such file"):
        sha256_of(f"{tmp_path}/y.csv")


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "e.csv.gz").touch()
    for name, reason in (
        ("x.csv", "no such file"),
        ("x.csv.gz", "no such file"),
        ("", "folder"),
        ("e.csv.gz", "empty"),
    ):
        with pytest.raises(InputFileError, match=reason):
            ByteStream(str(tmp_path / name)).read(1)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "ALWAYS_ALLOWED_BYTES", 10_000)
    (tmp_path / "small.gz").write_bytes(gzip.compress(b"PAR1" + bytes(9_996)))
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"PAR1" + bytes(100_000)))
    with open_seekable(f"{tmp_path}/small.gz", b"PAR1") as file:
        assert len(file.read()) == 10_000
    with pytest.raises(InputFileError, match="200 times its own size"):
        open_seekable(f"{tmp_path}/bomb.gz", b"PAR1")


def test_content_of_another_format_is_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even to a file of the temporary folder, which a reader that seeks needs."""
    (tmp_path / "x.parquet.gz").write_bytes(gzip.compress(b"object_id,ts\n" * 100_000))
    written: list[bytes] = []
    file = SimpleNamespace(write=written.append, seek=lambda _: None)
    monkeypatch.setattr(input_files.tempfile, "TemporaryFile", lambda: file)
    with pytest.raises(InputFileError, match="another format"):
        open_seekable(f"{tmp_path}/x.parquet.gz", b"PAR1")
    assert written == []


def test_several_compressed_streams_in_one_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"ab") + gzip.compress(b"cd"))
    assert ByteStream(f"{tmp_path}/x.gz").read(10) == b"abcd"
    with open_seekable(f"{tmp_path}/x.gz", b"ab") as file:
        assert file.read() == b"abcd"


@pytest.mark.parametrize(
    "head", [b"PAR1\x15", b"\x1f\x8b\x08", b"PK\x03\x04", b"\xff\xfea\0", b"\n\x00\x01", b"a\0b\n"]
)
def test_heads_of_other_formats_are_known(head: bytes) -> None:
    with pytest.raises(InputFileError, match="not a CSV file"):
        check_head("x.csv", head, "a CSV file")
