"""Arrays that are derived from immutable data files and kept in a folder of the node, mapped by its processes."""
