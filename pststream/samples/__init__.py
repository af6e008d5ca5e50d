"""Convert the planner sample into the arrays that planners and the load model read."""
