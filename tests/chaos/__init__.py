"""Inject random faults by a seed and compare the result with the oracle: `make chaos` (docs/contributing.md)."""
