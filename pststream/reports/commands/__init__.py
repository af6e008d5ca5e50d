"""What the read-only commands return."""
