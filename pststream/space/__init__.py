"""The raster of a plan, and the Hilbert curve over a raster."""
