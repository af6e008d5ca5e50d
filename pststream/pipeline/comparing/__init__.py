"""Compare planners on the data of a home by running the real job under each plan."""
