"""Hostile input by seed: every case has a number, from which it is generated."""
