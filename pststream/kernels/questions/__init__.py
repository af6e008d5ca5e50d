"""Kernels that build segments of stored objects, and that answer questions from them."""
