"""Kernels of the worker index: build segments, match objects, filter live terms."""
