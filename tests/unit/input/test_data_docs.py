"""Data Docs of the newest runs are kept; a page is found by the names of its run and its file only."""

from pathlib import Path

import pytest

from pststream.input.data_docs import KEPT, delete_old_docs, read_page
from pststream.storage.registry import files_at

RUN = "20260101T000000000000-landed_objects-failed"


def run_name(number: int, outcome: str) -> str:
    return f"20260101T{number:012}-pairs-{outcome}"


def test_the_newest_runs_of_each_outcome_are_kept(tmp_path: Path) -> None:
    files = files_at(str(tmp_path))
    assert delete_old_docs(files) == 0
    runs = {outcome: [run_name(n, outcome) for n in range(kept + 3)] for outcome, kept in KEPT.items()}
    for run in (run for of_outcome in runs.values() for run in of_outcome):
        files.write(f"data_docs/{run}/validations/text/one.html", b"one")
        files.write(f"data_docs/{run}/index.html", b"index")
    assert delete_old_docs(files) == 6
    left = {path.name for path in (tmp_path / "data_docs").iterdir()}
    assert left == {run for of_outcome in runs.values() for run in of_outcome[3:]}
    assert delete_old_docs(files) == 0


@pytest.mark.parametrize(
    ("run", "page", "content"),
    [
        (RUN, "index.html", "index"),
        (RUN, "validations/text/1-a.csv/one.html", "one"),
        (RUN, "other.html", None),
        (RUN, "../../home.json", None),
        (RUN, "../../secret.html", None),
        (RUN, "/secret.html", None),
        ("..", "secret.html", None),
        (RUN, "notes.txt", None),
        ("20260101", "index.html", None),
    ],
)
def test_a_page_is_read_by_its_name(tmp_path: Path, run: str, page: str, content: str | None) -> None:
    files = files_at(str(tmp_path))
    for name in (f"data_docs/{RUN}/index.html", f"data_docs/{RUN}/validations/text/1-a.csv/one.html", "secret.html"):
        files.write(name, Path(name).stem.encode())
    for name in ("home.json", f"data_docs/{RUN}/notes.txt"):
        files.write(name, b"secret")
    assert read_page(files, run, page) == content
