"""Frozen types and array layouts of plans, planner samples and index pieces, and pure functions on them."""
