"""Kill commands at every crash point, and compare what they leave with a home that nobody disturbed."""
