"""Read-only commands and HTML pages on a home."""
