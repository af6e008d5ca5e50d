"""Scored top-k: the k objects with the best score of place and text."""
