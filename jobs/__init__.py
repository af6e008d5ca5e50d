"""Programs for the DAGs, run with Python or by spark-submit: each runs one command and writes a result file."""
