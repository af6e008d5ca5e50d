"""Stage suspect input files one by one in a separate process, within limits of time and memory.

If a file exceeds a limit, or the process dies while it reads the file, this is reported as the problem of the file, and
the next file gets a new process.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from pststream.base.errors import InputFileError
from pststream.base.escape_text import escape_controls
from pststream.base.progress import Progress
from pststream.pipeline.ingest.isolated_reader import ReadLimits, isolated_reader
from pststream.pipeline.ingest.stage_file import StagedFile, stage_file


def stage_isolated(
    kind: str, folder: str, at: dt.datetime, files: Sequence[dict[str, Any]], limits: ReadLimits, progress: Progress
) -> list[StagedFile]:
    """Return the staged files of input files (ledger rows), in their order; arguments and errors as of `stage_file`.

    Raises RuntimeError for an unforeseen error that is not of the file.
    """
    staged: list[StagedFile] = []
    while len(staged) < len(files):
        with isolated_reader(stage_file) as reader:
            for file in files[len(staged) :]:
                progress(escape_controls(f"{file['path']}: reading it in a process of its own"))
                try:
                    staged.append(reader.read((kind, folder, at, file), file["path"], limits))
                except InputFileError as error:
                    progress(escape_controls(f"{file['path']}: {error.reason}"))
                    problem = (error.path, error.reason, error.hint)
                    staged.append(StagedFile(file["file_seq"], (), 0, None, problem))
                    break
    return staged
