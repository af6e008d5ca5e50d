"""Kinds of query: the contract of a kind, the registry of kinds, and one package for each kind."""
