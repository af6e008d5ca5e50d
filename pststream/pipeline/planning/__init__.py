"""Make plan versions: draw the sample that planners see, plan, build the index."""
