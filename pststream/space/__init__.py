"""Choose the raster of a plan from a sample, and order raster cells along a Hilbert curve."""
