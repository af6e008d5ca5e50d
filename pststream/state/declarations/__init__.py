"""Declarations of tables that `state/tables.py` lists with all others."""
