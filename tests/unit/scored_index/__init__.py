"""Tests of the index of `topk` subscriptions."""
