"""DAG `pststream_term_statistics`: once a day, count the objects that have each word, for the scores of `topk`."""

from pststream.airflow import make_dag

make_dag("term_statistics")
