"""Questions about stored objects: segments of objects, and the search for answers."""
