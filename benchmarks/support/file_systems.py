"""Name the file system of a folder: a cache in memory (`tmpfs`) has other figures than one on a disk."""

from pathlib import Path

MOUNTS = Path("/proc/self/mounts")


def file_system(folder: Path) -> str:
    """Return the kind of file system of a folder, such as `ext4`; `unknown` where no list of mounts exists."""
    if not MOUNTS.exists():
        return "unknown"
    mounts = [line.split()[1:3] for line in MOUNTS.read_text().splitlines()]
    path = folder.resolve()
    return max((len(Path(point).parts), kind) for point, kind in mounts if path.is_relative_to(point))[1]
