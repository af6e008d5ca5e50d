"""Count the frequent terms of many regions: ways that all return the same answers."""
