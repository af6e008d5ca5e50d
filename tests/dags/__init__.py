"""Tests of the DAGs and of the jobs that they submit."""
