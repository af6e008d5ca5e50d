"""HTML pages: the report, the adjustment and comparison pages, the Airflow pages."""
