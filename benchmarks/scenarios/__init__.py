"""The benchmarks by topic, one module for each; their functions `run...` return figures and targets."""
