"""Benchmarks of the stream: ingest, matching, freshness, long runs."""
