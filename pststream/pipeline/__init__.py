"""One file a step; the only room that joins Spark and algorithms."""
