"""Numba kernels: compiled functions from NumPy arrays to NumPy arrays, without Spark and without files."""
