"""Named benchmarks and the harness that runs them."""
