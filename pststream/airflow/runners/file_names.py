"""Turn texts such as run ids into file names."""

import re


def file_name(text: str) -> str:
    """Return a text as a valid file name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)
