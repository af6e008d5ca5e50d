"""The workload generator: synthetic objects and subscriptions, by seed."""
