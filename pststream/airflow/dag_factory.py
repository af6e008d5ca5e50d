"""Make the DAGs of a home by their names."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from airflow.sdk import DAG

from pststream.airflow.dag_options import PREFIX, DagOptions

NAMES = (
    *("micro_batch", "adjust_load", "repartition", "maintain", "check_tables", "term_statistics", "quarantine"),
    *("health", "questions"),
)


def make_dag(name: str, **options: Any) -> DAG:
    """Make one DAG.

    name     one of NAMES
    options  those of `DagOptions`; without `prefix`, that of the variable `PSTSTREAM_DAG_PREFIX` in the environment
    """
    if name not in NAMES:
        raise ValueError(f"no DAG {name!r}; the names are {', '.join(NAMES)}")
    prefix = os.environ.get("PSTSTREAM_DAG_PREFIX", PREFIX)
    dag: DAG = import_module(f"pststream.airflow.dags.{name}").KIND.build(DagOptions(**{"prefix": prefix, **options}))
    return dag


def make_dags(names: Sequence[str] = NAMES, **options: Any) -> dict[str, DAG]:
    """Make several DAGs of a home; return them by their ids. Options as of `make_dag`."""
    dags = [make_dag(name, **options) for name in names]
    return {dag.dag_id: dag for dag in dags}
