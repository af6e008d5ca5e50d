"""Input data of `pststream demo`: generated and hand-written texts, subscriptions, and faulty rows."""
