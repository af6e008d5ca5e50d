"""Tests; `oracles` holds the slow twins that judge the fast path."""
