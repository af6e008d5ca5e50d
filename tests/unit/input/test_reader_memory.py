"""Hostile files of some kilobytes, and lines of many values, cost a reader little memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.support.hostile_files import CATALOGUE, Rows
from tests.commands import ROOT
from tests.file_options import WITHOUT_BOUNDS

PROGRAM = """
import datetime, json, resource, sys
from pststream.pipeline.ingest.stage_file import stage_file

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

now = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)
folder, *files = json.loads(sys.argv[1])
for file in files:
    before = peak()
    stage_file("objects", folder, now, file)
print(peak() - before)
"""
"""Stage files one after the other; print by how many bytes the last one raises the peak of the memory."""

BOUNDS = {
    "values.jsonl": 64 << 20,
    "other-values.jsonl": 64 << 20,
    "hidden-size.parquet": 128 << 20,
}
"""Bytes that reading a file may take: a reader that trusts the file takes 200 MB or more."""


@pytest.mark.parametrize("name", BOUNDS)
def test_the_memory_of_a_reader_is_bounded(tmp_path: Path, name: str) -> None:
    (hostile,) = (file for file in CATALOGUE if file.name == name)
    (tmp_path / "good").mkdir()
    arguments: list[object] = [str(tmp_path / "staged")]
    for path, content in ((tmp_path / "good" / name, None), (tmp_path / name, hostile)):
        rows = Rows(1, "2026-03-01T00:00:00Z")
        content.write(path, rows) if content else path.write_text(rows.objects())
        options = json.dumps(WITHOUT_BOUNDS | {"max_text_bytes": 1 << 20})
        arguments.append(
            {"file_seq": 1, "sha256": "0" * 64, "path": str(path), "options": options, "bytes": path.stat().st_size}
        )
    program = [sys.executable, "-c", PROGRAM, json.dumps(arguments)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) < BOUNDS[name]
