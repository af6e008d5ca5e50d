"""The DAGs and what they submit."""
