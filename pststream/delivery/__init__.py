"""Build the messages of matches and of changes of answers, and limit them per subscription."""
