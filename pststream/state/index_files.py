"""The live data files of the worker index, as its Delta snapshot lists them."""

from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from pststream import names
from pststream.state.home import Home


@dataclass(frozen=True)
class IndexFile:
    """A data file: its path, the worker whose rows it holds, its size, the greatest subscription key in it."""

    path: str
    worker: int
    bytes: int
    max_key: int
    rows: int


def index_files(home: Home, plan_version: int) -> list[IndexFile]:
    """The files of a plan's index, ordered by worker and path."""
    table = DeltaTable(home.table(names.WORKER_INDEX))
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = [
        IndexFile(
            path=f"{home.table(names.WORKER_INDEX)}/{unquote(action['path'])}",
            worker=int(action["partition.worker"]),
            bytes=action["size_bytes"],
            max_key=_max_key(action),
            rows=action["num_records"] or 0,
        )
        for action in actions
        if int(action["partition.plan_version"]) == plan_version
    ]
    return sorted(files, key=lambda file: (file.worker, file.path))


def _max_key(action: dict[str, object]) -> int:
    found = action.get("max.subscription_key")
    return names.NEVER_US if found is None else int(found)  # type: ignore[call-overload]
