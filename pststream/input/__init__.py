"""Reading input files: formats, row rules, expectations and suites."""
