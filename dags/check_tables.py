"""DAG `pststream_check_tables`: once a day, check the ledgers, the worker index and the matches."""

from pststream.airflow import make_dag

make_dag("check_tables")
