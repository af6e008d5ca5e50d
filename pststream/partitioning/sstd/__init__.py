"""Planners of SSTD, and the division of their leaves among workers."""
