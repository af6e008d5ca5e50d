"""Define the tasks of the DAGs, their forms, their checks and their summaries."""
