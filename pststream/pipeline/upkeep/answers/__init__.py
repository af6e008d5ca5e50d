"""Check the answers of subscriptions with memory, and what batches changed in them."""
