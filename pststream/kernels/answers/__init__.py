"""Kernels of the answers of subscriptions with memory: buffers, changes, expiry."""
