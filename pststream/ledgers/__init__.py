"""Read the ledgers of files and batches; state and reports share the rules."""
