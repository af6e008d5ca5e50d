"""Kernels of planners and balancers."""
