"""Integer codes by which a segment stores the shape of each exact test; a box needs no test, so it has no code."""

CIRCLE = 1
POLYGON = 2
