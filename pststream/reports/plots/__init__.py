"""Layouts of bar charts and maps: numbers and path data, without markup."""
