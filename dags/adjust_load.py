"""DAG `pststream_adjust_load`: every hour, move raster cells between workers that are out of balance."""

from pststream.airflow import make_dag

make_dag("adjust_load")
