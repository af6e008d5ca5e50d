"""Kernels of planners, the load model and load adjustment: count loads, cut space and terms, assign to workers."""
