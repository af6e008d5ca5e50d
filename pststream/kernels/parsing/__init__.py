"""Kernels that parse bytes: CSV records, times, words."""
