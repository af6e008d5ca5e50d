"""Kernels that parse bytes: CSV records, timestamps, words."""
