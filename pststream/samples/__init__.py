"""Samples of both streams as planners and the load model use them."""
