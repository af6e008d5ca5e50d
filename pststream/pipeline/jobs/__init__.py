"""Jobs, the programs that a DAG submits: their arguments and outcome, and the work of those that take several steps."""
