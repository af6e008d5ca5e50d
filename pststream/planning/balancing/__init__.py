"""Balancers: what moves between workers when the loads drift."""
