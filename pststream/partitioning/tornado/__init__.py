"""Planners of Tornado: the A-Grid, and the two that it is compared with."""
