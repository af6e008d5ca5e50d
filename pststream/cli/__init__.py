"""The command line: parse arguments, call one function, print a document or a text, return an exit code."""

import pyarrow as pa

from pststream.base.optional_packages import hidden_packages

# pyarrow looks for pandas at the first array of a process. A command that converts a table to pandas still does.
with hidden_packages("pandas"):
    pa.array([0])
