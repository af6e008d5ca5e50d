"""Worlds of standing queries and parts of their state, for the benchmarks of subscriptions with memory."""
