"""Tokenize texts into words and term ids, and parse keyword expressions."""
