"""Benchmarks of `pststream bench run`, and the code that runs them and renders their results."""
