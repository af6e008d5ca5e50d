"""The notebook of the documentation runs on a small demo home, and is stored without outputs."""

from pathlib import Path
from typing import Any

import pytest

import pststream
from pststream.workloads.demo_files import write_demo
from tests.commands import new_home

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "quickstart.ipynb"


def read_notebook() -> Any:
    import nbformat  # loads slowly, as the client below, and only these tests need it

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    return notebook


def cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_notebook_is_stored_without_outputs() -> None:
    assert [cell.id for cell in cells(read_notebook()) if cell.outputs or cell.execution_count] == []


@pytest.mark.e2e
@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbclient import NotebookClient

    files = write_demo(tmp_path / "landing", 2017, objects=600, subscriptions=200)
    home = new_home(tmp_path / "pststream-demo" / "home")
    home.ingest("requests", files.requests)
    home.ingest("objects", files.objects)
    pairs = home.match()["matches"]
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    notebook = read_notebook()
    NotebookClient(
        notebook, timeout=300, startup_timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = {cell.id: cell.outputs[-1].data for cell in cells(notebook)}
    assert set(shown) == {"open", "matches", "objects", "pairs", "counts", "map", "reader"}
    assert pairs and "<table" in shown["pairs"]["text/html"] and shown["reader"]["text/plain"] == "True"
    assert shown["map"]["image/svg+xml"].count("<circle") == pststream.open(home.path).objects().num_rows
