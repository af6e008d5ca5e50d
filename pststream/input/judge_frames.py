"""Judge several frames by the suites of a home, and write the Data Docs of the run into the home."""

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pststream.input.data_docs import JudgedPage, write_site
from pststream.input.run_suites import SuiteResult, judge_frame
from pststream.input.suite_files import Suite
from pststream.storage.contract import Files

if TYPE_CHECKING:
    import pandas as pd

LONGEST_LABEL = 80


def judge_frames(
    files: Files, home: str, suites: Sequence[Suite], frames: Iterable[tuple[str, "pd.DataFrame"]]
) -> tuple[list[list[SuiteResult]], str]:
    """Judge frames of one subject, one after the other; return their results and the address of the index page.

    home    its address, which the address of the page begins with
    frames  each with its title, a text of any characters
    """
    results, pages = [], []
    with tempfile.TemporaryDirectory(prefix="pststream-") as folder:
        for number, (title, frame) in enumerate(frames, start=1):
            label = f"{number}-{re.sub(r'[^A-Za-z0-9_.-]', '_', title)[-LONGEST_LABEL:]}"
            of_frame = judge_frame(suites, frame, label, Path(folder))
            results.append(of_frame)
            pages += [JudgedPage(title, label, one.suite.name, tuple(one.reasons)) for one in of_frame]
        index = write_site(files, Path(folder), suites[0].subject, pages)
    return results, f"{home}/{index}"
