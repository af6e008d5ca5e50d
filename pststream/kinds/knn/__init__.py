"""Nearest neighbours: the k objects nearest to a point whose words satisfy a keyword expression."""
