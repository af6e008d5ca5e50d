"""Log the reports of standing `frequent_terms` subscriptions: the terms of a region at each tick of its step."""
