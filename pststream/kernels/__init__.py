"""Numba kernels: arrays in, arrays out; no Spark, no files."""
