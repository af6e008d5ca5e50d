"""Tests of the cache of arrays."""
