"""Grids laid over the earth and over the data."""
