"""Questions about stored objects: read from files, answered from segments, answers as tables and files."""
