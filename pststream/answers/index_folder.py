"""Keep the `topk` index of a bucket in a folder of the node: a mapped file for each segment, and the list of them.

The files are derived data. Thresholds change in them in place, so the list, which names the batch, is removed before
the first change and written after the last: after a kill in between, the folder counts as empty, and the caller builds
the index again. So it does after a restart of the machine, which may have lost pages that were not flushed.

One process uses a folder at a time: the caller has the lock of the bucket (answers/bucket_file.py).
"""

import json
import uuid
from pathlib import Path

from pststream.answers.scored_index import ScoredIndex
from pststream.base.atomic_files import write_atomically
from pststream.kernels.compile import cache_folder
from pststream.kernels.scored.index_arrays import IndexArrays
from pststream.storage.kept_mappings import KeptMappings
from pststream.storage.mapped_arrays import TornFileError, map_arrays, write_arrays

LIST = "segments.json"

_mappings = KeptMappings[IndexArrays]()


class IndexFolder:
    """The folder of the index of one bucket or unit.

    started_at  start by the clock of the batch after which the opened index was written; 0: not recorded
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started_at = 0
        self._files: list[tuple[IndexArrays, str]] = []

    def open(self) -> tuple[ScoredIndex, int] | None:
        """Return the index and the batch after which it was written; None if it is missing, torn, or not whole."""
        try:
            written = json.loads((self.folder / LIST).read_bytes())
            if written["made_by"] != _made_by():
                return None
            self._files = [(self._map(name), name) for name in written["segments"]]
            self.started_at = int(written.get("started_at", 0))
            return ScoredIndex(segment for segment, _ in self._files), int(written["batch_id"])
        except (FileNotFoundError, TornFileError, ValueError, KeyError, TypeError):
            return None

    def begin_changes(self) -> None:
        """Record that the folder has the index of no batch, before the first change."""
        (self.folder / LIST).unlink(missing_ok=True)

    def write(self, index: ScoredIndex, batch_id: int, started_at: int = 0) -> None:
        """Record the index after a batch: write its new segments, map them, and delete the files of others.

        started_at: when the batch started by the clock
        """
        self.begin_changes()
        self.folder.mkdir(parents=True, exist_ok=True)
        known, self._files = self._files, []
        for place, segment in enumerate(index.segments):
            name = next((name for mapped, name in known if mapped is segment), None)
            if name is None:
                name = uuid.uuid4().hex
                write_arrays(self.folder / name, segment._asdict())
                segment = index.segments[place] = self._map(name)
            self._files.append((segment, name))
        names = [name for _, name in self._files]
        content = {"made_by": _made_by(), "batch_id": batch_id, "started_at": started_at, "segments": names}
        write_atomically(self.folder / LIST, json.dumps(content).encode(), durable=False)
        for file in self.folder.iterdir():
            if file.name not in (*names, LIST):
                file.unlink(missing_ok=True)

    def _map(self, name: str) -> IndexArrays:
        path = self.folder / name
        return _mappings.get(path, path.stat(), lambda: IndexArrays(**map_arrays(path, writable=True)))


def _made_by() -> list[str]:
    """Return what must be the same when the folder is read: the version of the kernels, and the start of the machine,
    where the system has an identity of it.
    """
    boot = Path("/proc/sys/kernel/random/boot_id")
    return [cache_folder().name, boot.read_text().strip() if boot.exists() else ""]
