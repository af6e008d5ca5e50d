"""Boolean range queries: every object in a region whose words satisfy a keyword expression."""
