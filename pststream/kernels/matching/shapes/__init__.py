"""Kernels of shapes: test whether a circle or polygon contains a point; cut polygons into boxes for the index."""
