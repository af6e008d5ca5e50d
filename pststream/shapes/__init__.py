"""Shapes of regions: box, circle, polygon; one module a shape, and the registry through which all others reach them."""
