"""Deliver to a local folder: write each batch of messages atomically as a JSON Lines file named by the batch id.

A repeated batch overwrites its file, so each message is in the folder once, whatever was killed in between.
"""

import os
from pathlib import Path

from pststream.base.atomic_files import make_folder, replacing
from pststream.delivery.sinks.contract import MessageBatch, Refusal, SinkDown, SinkKind
from pststream.delivery.sinks.settings import SinkSettings


class FileSink:
    """Writes batches as files of a folder."""

    max_bytes = 64_000_000
    lanes = 1

    def __init__(self, settings: SinkSettings) -> None:
        self.max_messages = settings.messages or 10_000
        self._folder = Path(settings.target)

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Write a batch; no message is ever refused."""
        file = self._folder / f"{batch.id}.jsonl"
        try:
            make_folder(self._folder)
            with replacing(file) as temporary, open(temporary, "wb") as out:
                out.writelines(message.body + b"\n" for message in batch.messages)
        except OSError as error:
            raise SinkDown(f"cannot write to the folder: {error.strerror}", permanent=True) from None
        return []


def _find_delivery_obstacle(settings: SinkSettings) -> str:
    folder = Path(settings.target)
    existing = next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path("/"))
    return "" if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK) else "its folder cannot be written"


# Two sinks must not share a folder: their files have the same names.
KIND = SinkKind("file", "a folder", FileSink, _find_delivery_obstacle, max_lanes=1, normal_target=os.path.realpath)
