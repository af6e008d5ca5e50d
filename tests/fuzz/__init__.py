"""Hostile input by seed: every case has a number, and the number makes the case."""
