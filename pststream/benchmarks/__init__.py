"""Named benchmarks, and the code that runs them and renders their results."""
