"""Upkeep: daily checks, compaction and vacuum, backup."""
