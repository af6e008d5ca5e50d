"""Kernels that route objects and subscriptions under a plan."""
