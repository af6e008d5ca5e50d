"""Maintain a home: daily checks, compaction and vacuum, backup."""
