"""Answers of subscriptions with memory: the state of a bucket of subscriptions, and how a micro-batch changes it."""
