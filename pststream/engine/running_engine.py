"""Return the engine that the setting `engine` names (auto, local or spark); stop or kill Spark, and find its log.

`local` runs tasks in threads of this process, `spark` runs them on Spark, and `auto` runs few tasks in this process and
many on Spark, or all in this process if pyspark is not installed; on a cluster `auto` means Spark. A further engine is
a class that implements `contract.Engine` and an entry of `ENGINES`.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from pststream.engine import spark_log
from pststream.engine.auto_engine import AutoEngine
from pststream.engine.contract import Engine
from pststream.engine.local_engine import LocalEngine
from pststream.engine.spark_engine import SparkEngine
from pststream.engine.spark_session import get_context, is_local, kill_spark, spark_has_died, spark_master, stop_spark
from pststream.settings import Settings
from pststream.state.home import Home


def _auto(settings: Settings) -> Engine:
    if not is_local(spark_master(settings)):
        return _spark(settings)
    return AutoEngine(lambda: _spark(settings)) if find_spec("pyspark") else LocalEngine()


def _spark(settings: Settings) -> Engine:
    return SparkEngine(get_context(settings))


ENGINES: dict[str, Callable[[Settings], Engine]] = {
    "auto": _auto,
    "spark": _spark,
    "local": lambda settings: LocalEngine(),
}


def get_engine(settings: Settings) -> Engine:
    """Return the engine that the settings name; `spark` starts Spark if it does not run yet."""
    return ENGINES[settings.engine](settings)


def engine_is_alive() -> bool:
    """Whether the engine can run tasks: the operating system may have killed Spark for the memory it takes."""
    return not spark_has_died()


def kill_engine() -> None:
    """Kill the engine, if it runs, without waiting for its tasks."""
    kill_spark()


def stop_engine() -> None:
    """Stop the engine, if it runs."""
    stop_spark()


def log_to_folder(home: Home) -> None:
    """Let the engine log to the folder `logs` of a home, not to standard error, if it starts from now on."""
    spark_log.log_to_folder(home)


def log_folder() -> Path | None:
    """Return the folder to which the engine logs; None if it logs to standard error or has not started."""
    return spark_log.log_folder()
