"""Planning: the load model, the raster, and the dispatch index of a plan."""
