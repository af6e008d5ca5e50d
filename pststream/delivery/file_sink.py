"""A folder of JSON Lines: a file for each batch, named by its id, written beside and renamed.

A batch that comes again is written over, so each message is in the folder once, whatever was killed in between.
"""

import os
from pathlib import Path

from pststream.delivery.contract import Batch, Refusal, SinkDown
from pststream.sink_settings import SinkSettings


class FileSink:
    """Writes batches as files of a folder."""

    most_bytes = 64_000_000
    lanes = 1

    def __init__(self, settings: SinkSettings) -> None:
        self.most_messages = settings.messages or 10_000
        self._folder = Path(settings.target)

    def deliver(self, batch: Batch) -> list[Refusal]:
        """Write a batch; nothing is ever refused."""
        file = self._folder / f"{batch.id}.jsonl"
        writing = file.with_suffix(".writing")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(writing, "wb") as out:
                out.writelines(message.body + b"\n" for message in batch.messages)
                out.flush()
                os.fsync(out.fileno())
            os.replace(writing, file)
        except OSError as error:
            raise SinkDown(f"cannot write to the folder: {error.strerror}", lasting=True) from None
        return []
