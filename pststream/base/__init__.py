"""Errors, names, texts, times, arrays and files: the ground that every room uses."""
