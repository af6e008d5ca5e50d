"""DAG `pststream_quarantine`: release or discard quarantined files; triggered by hand only."""

from pststream.airflow import make_dag

make_dag("quarantine")
