"""Frequent terms: the k terms that the most objects of a region have."""
