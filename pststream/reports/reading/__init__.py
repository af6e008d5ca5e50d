"""Read the tables of a home through delta-rs for the commands and pages; delivery reads its messages through it too."""
