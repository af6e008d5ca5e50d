"""Airflow DAGs, one file each; they run the entries of jobs/ and import nothing heavier than `pststream.names`."""
