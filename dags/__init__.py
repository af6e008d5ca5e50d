"""One file a pipeline; each is a door to jobs/ and loads nothing heavier than `pststream.names`."""
