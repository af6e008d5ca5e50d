"""DAG `pststream_maintain`: once a day, compact the worker index and the tables, and delete old files."""

from pststream.airflow import make_dag

make_dag("maintain")
