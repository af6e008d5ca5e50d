"""Judge landed rows and pairs by suites of Great Expectations, which users put into the home as JSON files."""
