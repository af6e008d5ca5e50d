"""Segments of stored objects and the answers of questions."""
