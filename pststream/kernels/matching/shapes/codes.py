"""Codes of the exact tests in the arrays of a segment; 0 stands for a box, which needs no test of its own."""

CIRCLE = 1
POLYGON = 2
