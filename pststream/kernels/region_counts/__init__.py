"""Count terms of many regions that overlap, at once: over a grid of their edges, or with tables of groups."""
