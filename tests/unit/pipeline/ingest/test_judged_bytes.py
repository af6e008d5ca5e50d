"""Suites judge fewer rows of a file if its rows have many bytes, so that no file fills the memory."""

from pathlib import Path

import pyarrow as pa
import pytest

from pststream.pipeline.ingest import landing_gate
from pststream.pipeline.ingest.stage_file import SCHEMAS, StagedFile
from pststream.pipeline.ingest.staged_rows import StagedWriter
from pststream.state.home import Home

ROWS, BATCHES = 100, 4


@pytest.fixture
def staged(tmp_path: Path) -> StagedFile:
    """A file of 400 accepted rows, each with a text of 1,000 bytes."""
    writer = StagedWriter(str(tmp_path), SCHEMAS["objects"], 1_000)
    for start in range(0, BATCHES * ROWS, ROWS):
        rows = [{"row": start + place, "text": f"{start + place:04}" * 250} for place in range(ROWS)]
        writer.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMAS["objects"]))
    return StagedFile(1, writer.close(), BATCHES * ROWS, None)


@pytest.mark.parametrize(
    ("max_bytes", "limit", "judged"),
    [(1 << 28, 1_000, 400), (1 << 28, 300, 300), (150_000, 1_000, 100), (150_000, 50, 50), (10, 1_000, 1)],
)
def test_the_bytes_of_judged_rows_are_bounded(
    staged: StagedFile, monkeypatch: pytest.MonkeyPatch, max_bytes: int, limit: int, judged: int
) -> None:
    monkeypatch.setattr(landing_gate, "MAX_BYTES", max_bytes)
    rows = [landing_gate._read_rows(staged, "landed_objects", ["row", "text"], limit, "seed") for _ in range(2)]
    assert rows[0].num_rows == judged and rows[0].equals(rows[1])
    assert rows[0].column("text").to_pylist() == [f"{row:04}" * 250 for row in rows[0].column("row").to_pylist()]


def test_who_lands_a_file_cannot_know_which_rows_are_judged(tmp_path: Path) -> None:
    homes = [Home(tmp_path / name) for name in ("one", "other")]
    for home in homes:
        home.init()
    one, other = map(landing_gate._read_secret, homes)
    assert one == landing_gate._read_secret(homes[0]) and len({one, other, ""}) == 3
