"""What benchmarks share: homes, arrays, memory figures, baseline jobs, targets."""
