"""Run an entry of jobs/ from a task, on this machine or on Spark, and read its outcome."""
