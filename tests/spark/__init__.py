"""Tests that start Spark in this process."""
