"""Airflow DAGs, one file each, made by `pststream.airflow`."""
