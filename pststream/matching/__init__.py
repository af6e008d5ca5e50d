"""Build segments of the worker index, cache them on each node, and match micro-batches of objects with them."""
