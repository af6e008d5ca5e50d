"""Define queries: their kinds, regions and keywords."""
