"""Load adjustment: choose what to move between workers, and map new partitions to workers (PS2Stream section V)."""
