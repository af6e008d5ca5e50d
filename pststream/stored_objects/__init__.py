"""Segments of stored objects, in the node's cache, and the answers of questions about them."""
