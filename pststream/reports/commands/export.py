"""Export of the pairs to one file."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from pststream import names
from pststream.atomic_files import replacing
from pststream.errors import UsageError
from pststream.reports.commands.pair_files import CsvFile, JsonLinesFile, PairFile, ParquetFile
from pststream.reports.reading.pairs import Inserted, inserted_subscriptions, stream_pairs
from pststream.reports.reading.table_reader import AnyHome, Reader

FORMATS: dict[str, Callable[[BinaryIO, Inserted], PairFile]] = {
    ".csv": CsvFile,
    ".jsonl": JsonLinesFile,
    ".parquet": ParquetFile,
}


def export_matches(home: AnyHome, out: str, since: dt.datetime | None = None) -> dict[str, Any]:
    """Write every pair of batches that are done to `out`; pairs that a later deletion took back are not among them.

    out    .csv, .jsonl or .parquet; columns and forms: see pair_files.py. Written beside, then renamed.
    since  only objects with ts >= this
    Pairs come batch by batch, in a batch as they are stored (a file that was compacted counts as of its first batch).
    Held in memory: key, id and payload of each subscription, keys of the pairs taken back; nothing that grows with the
    matches. Returns {"out", "rows"}. Raises UsageError for a name or folder that cannot be.
    """
    path = Path(out)
    make = FORMATS.get(path.suffix.lower())
    if make is None:
        raise UsageError(f"--out {out}: its ending names no format", f"let it end with {', '.join(FORMATS)}")
    if path.is_dir():
        raise UsageError(f"--out {out}: is a folder", "give the name of a file")
    with replacing(path) as temporary, _open(temporary, out) as file:
        rows = _write(home, file, make, since)
    return {"out": out, "rows": rows}


def _open(path: Path, out: str) -> BinaryIO:
    try:
        return open(path, "wb")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}", "give a folder that exists") from None


def _write(
    home: AnyHome, file: BinaryIO, make: Callable[[BinaryIO, Inserted], PairFile], since: dt.datetime | None
) -> int:
    """Write all pairs; their number."""
    reader = Reader(home)
    for name in (names.BATCHES, names.MATCHES, names.REQUESTS):
        reader.dataset(name)
    inserted = inserted_subscriptions(reader)
    target = make(file, inserted)
    rows = 0
    for some in stream_pairs(reader, inserted, since):
        target.write(some)
        rows += len(some.row)
    target.close()
    return rows
