"""Messages of matches, and the sinks that take them."""
