"""Share code between the DAGs; the package has its own name, so that other teams' files can be in the same folder."""
