"""Kernels that route objects and subscriptions to the workers of a plan."""
