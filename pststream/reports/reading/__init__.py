"""Bounded reads of a home's tables through delta-rs."""
