"""Shapes of regions (box, circle, polygon): one module for each, and the registry that all other packages use."""
