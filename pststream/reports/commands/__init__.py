"""The read-only commands: status, metrics, plans, explain, rejects, export."""
