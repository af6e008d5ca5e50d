"""Jobs for spark-submit, one for each step of the DAGs: each runs one command and writes a result file."""
