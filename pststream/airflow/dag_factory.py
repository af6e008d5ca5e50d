"""Make the DAGs of a home by their names, and define `PSTStreamDag` and `PSTStreamTaskGroup`."""

import os
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

from airflow.sdk import DAG, TaskGroup

from pststream.airflow.dag_options import MICRO_BATCH, PREFIX, DagOptions
from pststream.airflow.dags.micro_batch import KIND
from pststream.airflow.tasks.micro_batch_tasks import add_micro_batch_tasks

NAMES = (
    *("micro_batch", "adjust_load", "repartition", "maintain", "check_tables", "term_statistics", "quarantine"),
    *("health", "questions", "pairs"),
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


class PSTStreamDag(DAG):
    """The DAG `<prefix>micro_batch` of a home: ingests landed files, matches them, and delivers the matches.

        PSTStreamDag(home="/data/stockholm", prefix="stockholm_", schedule="*/5 * * * *")

    Arguments are those of `DagOptions`, and those of Airflow's `DAG`, which replace the defaults.
    """

    def __init__(self, **arguments: Any) -> None:
        options, others = split_options(arguments)
        defaults = KIND.arguments(options)
        others["default_args"] = defaults["default_args"] | others.get("default_args", {})
        super().__init__(**(defaults | others))
        with self:
            add_micro_batch_tasks(options)


class PSTStreamTaskGroup(TaskGroup):
    """The tasks of `PSTStreamDag` as a group of another DAG.

    Arguments are those of `DagOptions` and of Airflow's `TaskGroup`. If the form of the DAG has the fields `home`,
    `landing`, `max_objects` or `strict`, they count.
    """

    def __init__(self, group_id: str = "pststream", **arguments: Any) -> None:
        options, others = split_options(arguments)
        defaults = options.task_defaults(MICRO_BATCH)
        super().__init__(group_id=group_id, **(others | {"default_args": defaults | others.get("default_args", {})}))
        with self:
            add_micro_batch_tasks(options)


def split_options(arguments: dict[str, Any]) -> tuple[DagOptions, dict[str, Any]]:
    """Return the options among the arguments, and the other arguments; `schedule` is the schedule of `micro_batch`."""
    own = {one.name for one in fields(DagOptions)}
    others = {name: value for name, value in arguments.items() if name not in own}
    schedules = {KIND.name: others.pop("schedule")} if "schedule" in others else {}
    options = {name: value for name, value in arguments.items() if name in own}
    return DagOptions(**({"schedules": schedules} | options)), others
