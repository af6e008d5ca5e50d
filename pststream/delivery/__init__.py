"""Build the messages of matches, and limit them per subscription."""
