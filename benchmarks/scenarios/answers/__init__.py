"""Benchmarks of questions and of subscriptions with memory."""
