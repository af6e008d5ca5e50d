"""Kernels that parse UTF-8 bytes: CSV records, timestamps, and texts into hashed words (term ids)."""
