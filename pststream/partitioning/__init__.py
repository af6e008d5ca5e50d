"""Planners, which make a partition plan from a sample: one module for each, their helpers and their registry."""
