"""Ingest: read input files, validate and deduplicate their rows, append them to the log."""
