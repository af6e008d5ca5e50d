"""Planners: from a sample to a plan, one module for each."""
