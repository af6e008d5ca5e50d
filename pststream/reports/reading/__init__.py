"""Read the tables of a home through delta-rs, for the commands and the pages."""
