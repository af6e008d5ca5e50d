"""Return the engine that the setting `engine` names: auto, local or spark.

`local` runs tasks in threads of this process, `spark` runs them on Spark, and `auto` runs few tasks in this process and
many on Spark, or all in this process if pyspark is not installed; on a cluster `auto` means Spark. A further engine is
a class that implements `contract.Engine` and an entry of `ENGINES`.
"""

from collections.abc import Callable
from importlib.util import find_spec

from pststream.engine.auto_engine import AutoEngine
from pststream.engine.contract import Engine
from pststream.engine.local_engine import LocalEngine
from pststream.engine.spark_engine import SparkEngine
from pststream.engine.spark_session import get_engine_session, is_one_machine
from pststream.settings import Settings
from pststream.state.home import Home


def _auto(settings: Settings, home: Home | None) -> Engine:
    if not is_one_machine(settings):
        return _spark(settings, home)
    return AutoEngine(lambda: _spark(settings, home)) if find_spec("pyspark") else LocalEngine()


def _spark(settings: Settings, home: Home | None) -> Engine:
    return SparkEngine(get_engine_session(settings), home)


ENGINES: dict[str, Callable[[Settings, Home | None], Engine]] = {
    "auto": _auto,
    "spark": _spark,
    "local": lambda settings, home: LocalEngine(),
}


def get_engine(settings: Settings, home: Home | None = None) -> Engine:
    """Return the engine that the settings name; `spark` starts Spark if it does not run yet.

    home: the home that the tasks are about, where functions with much data wait for them
    """
    return ENGINES[settings.engine](settings, home)


def runs_elsewhere(settings: Settings) -> bool:
    """Whether tasks may run on other machines, which do not see the disk of this one."""
    return settings.engine != "local" and not is_one_machine(settings)
