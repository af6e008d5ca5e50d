"""Data of `pststream demo`: generated and hand-written texts, and subscriptions."""
