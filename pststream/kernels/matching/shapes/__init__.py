"""Exact tests of a point against a shape, one module a shape, and the dispatch over them."""
