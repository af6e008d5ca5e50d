"""Answers of subscriptions with memory against a plain twin."""
