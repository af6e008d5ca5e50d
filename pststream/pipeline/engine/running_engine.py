"""Start, stop and kill the engine of this process.

There is one engine, Spark. A second one is a class that implements `contract.Engine` and a branch in `get_engine`.
"""

from pststream.pipeline.engine.contract import Engine
from pststream.pipeline.engine.spark_engine import SparkEngine
from pststream.pipeline.engine.spark_session import get_context, kill_spark, spark_is_alive, stop_spark
from pststream.settings import Settings


def get_engine(settings: Settings) -> Engine:
    """Return the engine of this process; start it if it does not run yet."""
    return SparkEngine(get_context(settings))


def engine_is_alive() -> bool:
    """Whether the engine still runs; the operating system may have killed it for the memory it takes."""
    return spark_is_alive()


def kill_engine() -> None:
    """Kill the engine, if it runs, without waiting for its tasks."""
    kill_spark()


def stop_engine() -> None:
    """Stop the engine, if it runs."""
    stop_spark()
