"""Run tasks in parallel: the engine contract, Spark as its implementation, and caches of worker processes."""
