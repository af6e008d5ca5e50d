"""DAG `pststream_repartition`: once a day, make a new plan, and apply it if it lowers the load enough."""

from pststream.airflow import make_dag

make_dag("repartition")
