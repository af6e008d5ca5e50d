"""Define what is special about one DAG of a home, and build the DAG from it and from what all DAGs share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from pststream.airflow.dag_options import DagOptions
from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks import forms

DOCS = Path(__file__).parent / "dags"


@dataclass(frozen=True)
class DagKind:
    """One of the DAGs of a home. `dags/<name>.md` is its page.

    name         without prefix
    cron         the default schedule; `none`: manual runs only
    priority     of its tasks in the pool
    description  one line
    add_tasks    adds the tasks to the DAG of the `with` block
    fields       returns the form; by default it has the field *Home* only
    after        name of an asset whose events start a run as well
    callbacks    returns callbacks that replace those of all tasks
    """

    name: str
    cron: str
    priority: int
    description: str
    add_tasks: Callable[[DagOptions], object]
    fields: Callable[[DagOptions], dict[str, Param]] = lambda options: {"home": forms.home_field(options)}
    after: str | None = None
    callbacks: Callable[[DagOptions], dict[str, Any]] | None = None

    def arguments(self, options: DagOptions) -> dict[str, Any]:
        """Return the arguments of `DAG`."""
        after = options.asset(self.after) if self.after else None
        shared = options.dag_arguments(self.name, self.cron, priority=self.priority, after=after)
        if self.callbacks:
            shared["default_args"] |= self.callbacks(options)
        own = {"description": self.description, "doc_md": str(DOCS / f"{self.name}.md"), "params": self.fields(options)}
        return shared | own

    def build(self, options: DagOptions) -> DAG:
        """Build the DAG."""
        with DAG(**self.arguments(options)) as dag:
            self.add_tasks(options)
        return dag


def add_job(
    options: DagOptions,
    task_id: str,
    words: Sequence[str] = (),
    *,
    hours: int,
    operator: type[SparkJob] = SparkJob,
    **arguments: Any,
) -> SparkJob:
    """Add the task of a job on the home to the DAG of the `with` block, and return it.

    words      arguments of the job besides its home
    hours      after which the task is ended
    arguments  further ones of the operator
    """
    return operator(
        task_id=task_id,
        arguments=[*options.home_arguments, *words],
        execution_timeout=timedelta(hours=hours),
        **options.job,
        **arguments,
    )
