"""Helpers of the benchmarks: synthetic homes and arrays, memory figures, baseline jobs, files for peers, targets."""
