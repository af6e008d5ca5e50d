"""The command line: parse arguments, call one function, print a document or a text, return an exit code."""
