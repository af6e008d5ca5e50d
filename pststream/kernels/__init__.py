"""Numba kernels: compiled functions from arrays to arrays, without Spark and without files."""
