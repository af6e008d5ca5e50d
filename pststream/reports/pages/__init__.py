"""HTML pages: the report of a home, an adjustment of its plan, a comparison of planners, and the pages in Airflow."""
