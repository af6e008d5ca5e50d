"""What a query is: its kind, its region, its keywords."""
