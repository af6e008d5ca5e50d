"""Homes of older formats.

tests/samples/format-N.tar.xz holds `files/` (requests-*, objects-*) and `home/`, as the last version of format N left
them: all files ingested, the first batch matched, a second plan made, the last file of objects pending. When the
format goes up, the version before makes the sample: `written(folder, 31, 3)` and `home_for` of tests/kill_and_rerun.py.
That of format 3 is that of format 2, upgraded. That of format 5 has `sent/` too: a sink of files that was down after
two of its four requests of the first batch. Those of formats 6 and 8 to 10 have a plan by `grid` second.
"""

import tarfile
from pathlib import Path

from tests.commands import Home

SAMPLES = Path(__file__).parent / "samples"


def unpacked(format: int, folder: Path) -> Home:
    """The home of a sample, unpacked into a folder with the files beside it."""
    with tarfile.open(SAMPLES / f"format-{format}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return Home(folder / "home")
