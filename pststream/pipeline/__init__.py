"""The steps of the pipeline, one sub-package for each flow; `engine` runs their tasks in threads or on Spark."""
