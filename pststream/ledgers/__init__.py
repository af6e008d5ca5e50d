"""Read the two ledgers of a home (input files, micro-batches); pipeline, state and reports share the rules."""
