"""Define the views of a home once, write them in the SQL of other programs, and query them in this process."""
