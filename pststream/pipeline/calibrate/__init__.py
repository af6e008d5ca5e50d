"""Measure the constants of the load model by the real job, in homes of random objects and queries."""
