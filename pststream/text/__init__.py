"""Words, term ids and keyword expressions."""
