"""Words of texts, and keyword expressions."""
