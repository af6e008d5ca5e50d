"""Give a benchmark a cache of segments of its own, which is empty and never evicts."""

from dataclasses import replace
from pathlib import Path

from pststream.kernels.compile import node_folder
from pststream.settings import Settings

CACHE_BYTES = 1_000_000_000_000


def with_cache(folder: Path, settings: Settings) -> Settings:
    """Return settings with an empty cache of segments; commands that use it find the compiled kernels of this node."""
    folder.mkdir()
    (node_folder() / "numba").mkdir(parents=True, exist_ok=True)
    (folder / "numba").symlink_to(node_folder() / "numba", target_is_directory=True)
    return replace(settings, cache_dir=str(folder), cache_bytes=CACHE_BYTES, engine="local")
