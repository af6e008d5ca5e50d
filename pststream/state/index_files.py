"""The live data files of the worker index, as its Delta snapshot lists them."""

from dataclasses import dataclass

from pststream import names
from pststream.state.data_files import data_files
from pststream.state.home import Home
from pststream.state.plans import index_version


@dataclass(frozen=True)
class IndexFile:
    """A data file: its path, the worker whose rows it holds, its size, the greatest subscription key in it."""

    path: str
    worker: int
    bytes: int
    max_key: int
    rows: int


def index_files(home: Home, plan_version: int) -> list[IndexFile]:
    """The files of the index that a plan is served from, ordered by worker and path."""
    wanted = index_version(home, plan_version)
    root = home.table(names.WORKER_INDEX)
    files = [
        IndexFile(
            f"{root}/{file.path}",
            file.partition["worker"],
            file.bytes,
            file.high.get("subscription_key", names.NEVER_US),
            file.rows,
        )
        for file in data_files(home, names.WORKER_INDEX)
        if file.partition["index_version"] == wanted
    ]
    return sorted(files, key=lambda file: (file.worker, file.path))
