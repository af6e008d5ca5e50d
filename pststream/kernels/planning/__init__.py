"""Kernels that planners and load adjustment use."""
