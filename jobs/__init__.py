"""One spark-submit entry a step: arguments, settings, session, one call, exit code."""
