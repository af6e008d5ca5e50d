"""Run tasks: the contract of engines, threads or Spark, and what a worker process caches."""
