"""Route objects and subscriptions to workers under a plan."""
