"""Read-only commands (status, metrics, plans, explain, rejects, export), and look-ups for the pages in Airflow."""
