"""Workload generator: synthetic objects and subscriptions that depend on a seed alone."""
