"""Planning: draw the sample that planners see, make a plan version and its index."""
