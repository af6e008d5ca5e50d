"""Define plans: arrays from places and terms to units and workers, its rows, and the sample that planners get."""
