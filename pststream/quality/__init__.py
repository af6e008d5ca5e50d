"""Read input files, accept or reject their rows, and check files and tables against thresholds."""
