"""HTML pages: the report, the pages of an adjustment and of a comparison of planners, the pages in Airflow."""
