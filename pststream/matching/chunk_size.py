"""Adapt the number of objects that a matching task matches at once, so that their pairs fit into memory."""

from pststream.matching.matcher import MAX_PAIRS

MAX_OBJECTS = 1 << 17


class ChunkSize:
    """The number of objects to match at once: first MAX_OBJECTS, a quarter after too many pairs, double after few."""

    def __init__(self) -> None:
        self.objects = MAX_OBJECTS

    def shrink(self, objects: int) -> None:
        """Shrink after a chunk of `objects` (more than one) objects that had more than MAX_PAIRS pairs."""
        self.objects = max(objects // 4, 1)

    def record(self, objects: int, pairs: int) -> None:
        """Record the pairs of a chunk of `objects` objects, and grow if a full chunk had few."""
        if objects == self.objects < MAX_OBJECTS and pairs < MAX_PAIRS // 4:
            self.objects *= 2
