"""Build the DAGs of a home: one module each, with a function `build` that takes the options of the home."""
