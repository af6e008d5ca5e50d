"""Look up, under a plan, the workers to which objects are sent and at which subscriptions are stored."""
