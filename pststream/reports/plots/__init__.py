"""Plots as inline SVG: bar charts and the map of a plan."""
