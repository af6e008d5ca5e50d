"""How many objects are matched at a time, so that what they match fits into memory."""

from pststream.matching.matcher import MOST_PAIRS

MOST = 1 << 17


class Portions:
    """Starts at MOST objects; a quarter of a portion that had too many pairs, twice one that had few."""

    def __init__(self) -> None:
        self.objects = MOST

    def too_many(self, objects: int) -> None:
        """So many objects, more than one, had more than MOST_PAIRS."""
        self.objects = max(objects // 4, 1)

    def found(self, objects: int, pairs: int) -> None:
        """So many objects had so many pairs."""
        if objects == self.objects < MOST and pairs < MOST_PAIRS // 4:
            self.objects *= 2
