"""Kinds of query: the contract, the registry, and a module for each kind."""
