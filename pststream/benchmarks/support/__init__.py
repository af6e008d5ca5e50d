"""Shared code of the benchmarks: homes, arrays, memory figures, baseline jobs, targets."""
