"""PSTStream: match standing spatio-textual queries against a stream of objects, each match exactly once."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pststream.api import OpenedHome

__all__ = ["__version__", "open"]
__version__ = "0.1.0"


def open(home: str | os.PathLike[str]) -> "OpenedHome":
    """Open a home for reading: a local folder, or `s3://bucket/prefix` (extra `aws`). Starts no JVM.

    Raises pststream.base.errors.HomeError if there is no home, or one of another format or other tables.
    """
    from pststream.api import OpenedHome  # loads pyarrow; `import pststream` does not

    return OpenedHome(home)
