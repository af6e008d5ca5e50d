"""One module a planner, and the dictionary that registers them."""
