"""Shapes of regions: box, circle, polygon."""
