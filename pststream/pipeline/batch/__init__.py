"""Micro-batches: route the objects of a key range, match them, commit the matches."""
