"""Kinds of query: the contract of a kind, the registry, and one package for each kind."""
