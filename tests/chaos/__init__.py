"""A run that breaks what it can, by a seed, and compares what is left with the oracle: `make chaos` (docs/chaos.md)."""
