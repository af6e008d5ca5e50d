"""The Spark of the test process, for tests whose commands in other processes use it, too."""

from collections.abc import Iterator
from typing import Any

import pytest

from pststream.engine.spark_session import get_session, spark_url
from pststream.settings import Settings


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """The Spark of this process, as a server that the commands of other processes find, too."""
    settings = Settings(spark_master="local[2]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_REMOTE", spark_url(settings))
        yield get_session(settings)
