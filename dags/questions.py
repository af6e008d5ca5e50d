"""DAG `pststream_questions`: answer questions about stored objects, of files or of its form."""

from pststream.airflow import make_dag

make_dag("questions")
