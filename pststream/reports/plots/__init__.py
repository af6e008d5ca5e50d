"""Lay out bar charts and maps for the pages: numbers and SVG path data, without markup."""
