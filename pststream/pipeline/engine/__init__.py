"""How tasks run: Spark, its session, and what a worker process keeps between tasks."""
