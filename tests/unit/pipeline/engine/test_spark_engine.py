"""The private members of PySpark that the engine uses are there; an upgrade that drops one fails here by its name."""

import inspect
from typing import Any

import pytest
from pyspark import RDD, SparkContext
from pyspark.core.rdd import PipelinedRDD

from pststream.base.errors import RetryableError
from pststream.engine import spark_engine


def test_an_rdd_of_a_map_has_the_java_rdd_of_pickled_batches() -> None:
    """`spark_engine._collect` collects `RDD._jrdd`, whose elements are pickled lists of values."""
    assert isinstance(inspect.getattr_static(PipelinedRDD, "_jrdd"), property)
    assert "_jrdd" in inspect.signature(RDD).parameters or "self._jrdd = jrdd" in inspect.getsource(RDD.__init__)


@pytest.mark.parametrize("member", ["_active_spark_context", "_gateway", "_ensure_initialized"])
def test_a_spark_context_has_its_private_members(member: str) -> None:
    """`spark_session` asks which context runs, kills the JVM of its gateway, and reads what spark-submit was given."""
    assert hasattr(SparkContext, member)


def test_a_running_context_has_the_java_context() -> None:
    """`spark_session.spark_has_died` asks `SparkContext._jsc` whether it has stopped."""
    assert "self._jsc = " in inspect.getsource(SparkContext._do_init)


def test_the_error_of_a_task_is_the_end_of_its_last_traceback() -> None:
    text = (
        ": PythonException: Traceback (most recent call last):\n  File a, line 1, in main\n    process()\n    ^^^\n"
        "OSError: no such file\nof that name\n\n\tat org.apache.spark.api.python.Reader\n"
    )
    assert spark_engine._error_of_task(text) == "OSError: no such file\nof that name"
    assert spark_engine._error_of_task("Job aborted") == ""


def test_a_task_that_may_be_run_again_fails_as_on_the_local_engine() -> None:
    text = (
        "Traceback (most recent call last):\n  File a, line 1, in main\n"
        "pststream.base.errors.RetryableError: {}\n\tat org"
    )

    class Failed:
        @property
        def _jrdd(self) -> Any:
            raise RuntimeError(text.format(RetryableError("/cache: no room for 9 bytes", "make room")))

    with pytest.raises(RetryableError) as caught:
        spark_engine._collect(Failed())  # type: ignore[arg-type]
    assert str(caught.value) == "/cache: no room for 9 bytes\n  make room"
