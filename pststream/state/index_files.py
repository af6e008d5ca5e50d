"""The live data files of the worker index, as its Delta snapshot lists them, each with the plan that serves its rows.

While two plans are active, a file holds the subscriptions of one of them: the older ones were all in the index when the
newer plan came, and whatever writes files after that keeps the two apart.
"""

from dataclasses import dataclass

from pststream import names
from pststream.errors import PstError
from pststream.state.data_files import DataFile, data_files
from pststream.state.home import Home
from pststream.state.plans import Retiring, plan_rows, retiring_plan


@dataclass(frozen=True)
class IndexFile:
    """A data file: its path, the worker whose rows it holds, its size, the greatest subscription key in it.

    plan_version: the plan under which the worker serves its rows. The rows of names.EVERY_WORKER are deletions, which
    hold under any plan.
    """

    path: str
    worker: int
    bytes: int
    max_key: int
    rows: int
    plan_version: int


@dataclass(frozen=True)
class ServedFile:
    """A data file as its table lists it, and the plan that serves its rows."""

    data: DataFile
    plan_version: int

    @property
    def worker(self) -> int:
        """The worker whose rows it holds."""
        return self.data.partition["worker"]


def served_files(home: Home, plan_version: int) -> list[ServedFile]:
    """The files of the index that a plan, and the one that it retires, are served from; ordered by worker and path."""
    row = next((row for row in plan_rows(home) if row["plan_version"] == plan_version), None)
    index, retiring = (row["index_version"], retiring_plan(row)) if row else (plan_version, None)
    files = [file for file in data_files(home, names.WORKER_INDEX) if file.partition["index_version"] == index]
    found = [ServedFile(file, _plan_of(file, plan_version, retiring)) for file in files]
    return sorted(found, key=lambda file: (file.worker, file.data.path))


def index_files(home: Home, plan_version: int) -> list[IndexFile]:
    """As `served_files`, as tasks are told of them."""
    root = home.table(names.WORKER_INDEX)
    return [
        IndexFile(
            f"{root}/{file.data.path}",
            file.worker,
            file.data.bytes,
            file.data.high.get("subscription_key", names.NEVER_US),
            file.data.rows,
            file.plan_version,
        )
        for file in served_files(home, plan_version)
    ]


def _plan_of(file: DataFile, version: int, retiring: Retiring | None) -> int:
    if retiring is None or file.partition["worker"] == names.EVERY_WORKER:
        return version
    if file.high.get("subscription_key", names.NEVER_US) <= retiring.to:
        return retiring.plan_version
    if file.low.get("subscription_key", -1) > retiring.to:
        return version
    raise PstError(
        f"index file {file.path} holds subscriptions of plan {version} and of plan {retiring.plan_version}",
        "please report this: it is a fault",
    )
