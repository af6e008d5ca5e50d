"""Benchmarks of planners, plans and load adjustments."""
