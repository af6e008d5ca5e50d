"""Programs for the DAGs, run with Python or by spark-submit: each calls one function and writes a result file."""
