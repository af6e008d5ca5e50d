"""DAG `pststream_micro_batch`: every minute, ingest landed files, match them, and deliver the matches to the sinks."""

from pststream.airflow import make_dag

make_dag("micro_batch")
