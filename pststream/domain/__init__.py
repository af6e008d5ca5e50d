"""The vocabulary as frozen types and array layouts."""
