"""Read-only answers for people: command output, HTML pages, plots."""
