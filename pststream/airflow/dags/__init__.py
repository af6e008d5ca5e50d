"""The DAGs of a home: one module each, with a `KIND`, which builds the DAG from the options of the home."""
