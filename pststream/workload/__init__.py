"""Samples of both streams and the one cost model."""
