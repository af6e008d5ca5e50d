"""Read the ledgers of files and batches; state and reports share the types of their rows."""
