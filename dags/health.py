"""DAG `pststream_health`: check the state of a home every five minutes, with one alert for each problem."""

from pststream.airflow import make_dag

make_dag("health")
