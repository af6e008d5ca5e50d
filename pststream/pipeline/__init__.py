"""The steps of the pipeline, one sub-package per flow; the only package that joins Spark and the algorithms."""
