"""Workload generator: random objects and subscriptions, as files or arrays, that depend on a seed alone."""
