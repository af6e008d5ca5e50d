"""Kernels of the worker index: build segments, match objects with them, filter live terms, count posting reads."""
