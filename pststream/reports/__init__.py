"""Read a home for read-only commands and HTML pages, through delta-rs: no Spark, no JVM, no change of a table."""
