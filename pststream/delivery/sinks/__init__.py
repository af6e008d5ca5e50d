"""Sinks: where messages go, one module for each kind."""
