"""Airflow DAGs, one file each; they submit the entries of jobs/ and import nothing heavier than `pststream.names`."""
