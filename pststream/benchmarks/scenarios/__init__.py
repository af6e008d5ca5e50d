"""The benchmarks, one module for each; their functions `run...` return figures and targets."""
