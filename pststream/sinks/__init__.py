"""Sinks: where messages are delivered to, one module for each kind, and the settings of a sink."""
