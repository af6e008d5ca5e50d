"""Slow, obvious twins that judge the fast path and share no code with it."""
