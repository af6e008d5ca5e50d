"""Tables of a home: declared once, read and written here."""
