"""Readers and row rules: what is accepted, what is rejected and why."""
