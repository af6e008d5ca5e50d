"""Reading Delta tables and ledgers without a JVM."""
