"""Export the matched pairs of finished batches, without retracted ones, to one CSV, JSON Lines or Parquet file."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from pststream.atomic_files import replacing
from pststream.delta_tables import AnyHome
from pststream.errors import UsageError
from pststream.progress import Progress, StepCounter, no_progress
from pststream.reports.commands.pair_files import CsvFile, JsonLinesFile, PairFile, ParquetFile
from pststream.reports.reading.pair_tables import PairStream
from pststream.reports.reading.pairs import InsertedSubscriptions

FORMATS: dict[str, Callable[[BinaryIO, InsertedSubscriptions], PairFile]] = {
    ".csv": CsvFile,
    ".jsonl": JsonLinesFile,
    ".parquet": ParquetFile,
}


def export_matches(
    home: AnyHome, out: str, since: dt.datetime | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Write every pair of finished batches to `out`, without the retracted ones.

    out    .csv, .jsonl or .parquet; columns and formats: see pair_files.py. Written under another name, then renamed.
    since  only objects with ts >= this
    Pairs are ordered by batch, within a batch as they are stored (a compacted file is ordered by its first batch).
    Memory holds key, id and payload of each subscription and the keys of the retracted pairs; it does not grow with
    the matches. Returns {"out", "rows"}. Raises UsageError for a file name or folder that cannot be used.
    """
    path = Path(out)
    make = FORMATS.get(path.suffix.lower())
    if make is None:
        raise UsageError(f"--out {out}: unknown format", f"end the name with {', '.join(FORMATS)}")
    if path.is_dir():
        raise UsageError(f"--out {out}: is a folder", "give the name of a file")
    with replacing(path) as temporary, _open(temporary, out) as file:
        rows = _write(home, file, make, since, progress)
    return {"out": out, "rows": rows}


def _open(path: Path, out: str) -> BinaryIO:
    try:
        return open(path, "wb")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}", "give a folder that exists") from None


def _write(
    home: AnyHome,
    file: BinaryIO,
    make: Callable[[BinaryIO, InsertedSubscriptions], PairFile],
    since: dt.datetime | None,
    progress: Progress,
) -> int:
    """Write all pairs and return their number."""
    stream = PairStream(home, since)
    target = make(file, stream.inserted)
    rows, counter = 0, StepCounter(progress, "exporting", "match", stream.count_all() if since is None else None)
    for pairs in stream:
        target.write(pairs)
        rows += len(pairs.row)
        counter.add(len(pairs.row))
    target.close()
    return rows
