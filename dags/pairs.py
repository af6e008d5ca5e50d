"""DAG `pststream_pairs`: once an hour, bring the table `gold/pairs` up to the last batch."""

from pststream.airflow import make_dag

make_dag("pairs")
