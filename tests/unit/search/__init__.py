"""Questions: parsed, asked about homes, answered by commands and from Python."""
