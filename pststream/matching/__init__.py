"""Segments of the worker index, their node-local cache, and the matching of a micro-batch."""
