"""Run PSTStream in Airflow: DAGs, a task group and operators for a home. Importing it does not import Airflow yet."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pststream.airflow.dag_factory import PSTStreamDag, PSTStreamTaskGroup, make_dag, make_dags
    from pststream.airflow.dag_options import DagOptions
    from pststream.airflow.operators import BalanceOperator, IngestOperator, MatchOperator, PlanOperator

__all__ = [
    "BalanceOperator",
    "DagOptions",
    "IngestOperator",
    "MatchOperator",
    "PSTStreamDag",
    "PSTStreamTaskGroup",
    "PlanOperator",
    "make_dag",
    "make_dags",
]
MODULES = {"DagOptions": "dag_options"}
MODULES |= dict.fromkeys(("PSTStreamDag", "PSTStreamTaskGroup", "make_dag", "make_dags"), "dag_factory")
"""The modules of public names; the others are operators."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES.get(name, 'operators')}"), name)
