"""Find input files, decide which are complete, and open them without following links."""
