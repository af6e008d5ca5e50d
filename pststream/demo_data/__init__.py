"""The data of `pststream demo`."""
