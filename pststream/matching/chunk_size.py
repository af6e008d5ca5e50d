"""Adapt the number of objects that are matched at a time, so that their pairs fit into memory."""

from pststream.matching.matcher import MAX_PAIRS

MAX_OBJECTS = 1 << 17


class ChunkSize:
    """Starts at MAX_OBJECTS; becomes a quarter after a chunk with too many pairs, and doubles after one with few."""

    def __init__(self) -> None:
        self.objects = MAX_OBJECTS

    def shrink(self, objects: int) -> None:
        """Account for a chunk of so many objects, more than one, that had more than MAX_PAIRS."""
        self.objects = max(objects // 4, 1)

    def record(self, objects: int, pairs: int) -> None:
        """Account for a chunk of so many objects that had so many pairs."""
        if objects == self.objects < MAX_OBJECTS and pairs < MAX_PAIRS // 4:
            self.objects *= 2
